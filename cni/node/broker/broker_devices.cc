#include "cni/node/broker/broker_devices.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"

namespace fairlead::cni::node {
namespace {

constexpr const char* kLogger = "broker";
constexpr std::chrono::seconds kWatchAgain{1};  // descriptors are used up
// Devices ring by shutdown(2), which is permanent: each ring is an edge.
constexpr std::uint32_t kMemberEvents = EPOLLIN | EPOLLRDHUP | EPOLLET;

TimePoint now_() { return std::chrono::steady_clock::now(); }

}  // namespace

BrokerMember* BrokerDevices::find(Member member) const {
  const auto found = members_.find(member);
  return found == members_.end() ? nullptr : found->second.get();
}

void BrokerDevices::take_in(BrokerPod& pod, unsigned index, std::uint64_t instance, TimePoint now) {
  const PodMeter meter(pod.credits());
  pod.probe().avoid(index, now);
  const Member member = pod.probe().socket();
  auto made = BrokerMember::create(pod.probe().take_socket(), pod, index, instance);
  if (!made || !watch(member, kMemberEvents)) return;
  pod.probe().connected(index, now);
  members_[member] = std::move(*made);
  pod.credits().charge(kRequestsPerDevice);
  const auto leaves = book_.connect(pod, member);
  if (!leaves) return;
  // Do not connect to it again at once instead of the next one.
  const unsigned left = members_.at(*leaves)->index();
  drop(*leaves);
  pod.probe().avoid(left, now);
}

bool BrokerDevices::watch(int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST;
}

void BrokerDevices::unwatch(int fd) { (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr); }

// Changing the events gives the edge again if there is one.
void BrokerDevices::rewatch(Member member) {
  BrokerMember& device = *members_.at(member);
  epoll_event event{};
  device.set_watched_for_room(device.wants_room());
  event.events = kMemberEvents | (device.wants_room() ? EPOLLOUT : 0u);
  event.data.fd = member;
  (void)::epoll_ctl(epoll_, EPOLL_CTL_MOD, member, &event);
}

// EPOLLOUT arrives with each record that a device reads. A change of the events triggers one more,
// so earlier reads are not missed. Therefore the events are changed only when necessary.
void BrokerDevices::watch_for_room(BrokerPod& pod) {
  for (const Member member : pod.members())
    if (members_.at(member)->watched_for_room() != members_.at(member)->wants_room())
      rewatch(member);
}

bool BrokerDevices::send(Member member, const broker::Message& message, std::span<const int> fds) {
  BrokerMember& device = *members_.at(member);
  BrokerPod& pod = book_.pod_of(member);
  const bool waited = device.has_waiting();
  Result<void> sent = Error{Errc::kExhausted, "descriptors that wait"};
  if ((!waited || pod.share().may_wait(fds.size())) && !pod.credits().shunned()) {
    const PodMeter meter(pod.credits());
    sent = device.send(message, fds);
  }
  if (!sent && sent.error().code != Errc::kExhausted) return drop(member);
  if (!sent) {
    ++counts_.records_lost;
    warn("limit", pod, "a record: a device does not read");
  }
  if (!waited && device.has_waiting()) {
    pod.set_records_wait(true);
    watch_for_room(pod);
  }
  return true;
}

void BrokerDevices::release(BrokerPod& pod) {
  const PodMeter meter(pod.credits());
  bool wait = false;
  for (const Member member : pod.members()) {
    BrokerMember& device = *members_.at(member);
    if (!device.has_waiting()) continue;
    if (device.flush())
      wait = wait || device.has_waiting();
    else
      drop(member);
  }
  pod.set_records_wait(wait);
  watch_for_room(pod);
}

bool BrokerDevices::drop(Member member) {
  const auto found = members_.find(member);
  if (found == members_.end()) return false;
  BrokerPod& pod = book_.pod_of(member);
  const PodMeter meter(pod.credits());
  pod.probe().disconnected(found->second->index(), now_());
  close(pod, found->second->take_descriptors());
  book_.disconnect(member);
  unwatch(member);  // its socket may stay open
  members_.erase(found);
  count();
  return false;
}

bool BrokerDevices::drop_hostile(Member member, const char* what) {
  BrokerPod& pod = book_.pod_of(member);
  const unsigned index = members_.at(member)->index();
  ++counts_.strangers;
  warn("device_speaks_otherwise", pod, what);
  drop(member);
  pod.probe().avoid(index, now_());
  return false;
}

bool BrokerDevices::may_ask(BrokerPod& pod, TimePoint now) {
  const std::optional<Duration> wait = pod.credits().spend(now);
  if (!wait) return true;
  // Each device has an event when it is watched again, with or without a request. Some credits must
  // be left for that.
  const std::chrono::duration<double> looks(2.0 * static_cast<double>(pod.members().size()) /
                                            kRequestsPerSecond);
  pause(pod, now + *wait + std::chrono::ceil<std::chrono::milliseconds>(looks));
  return false;
}

void BrokerDevices::pause(BrokerPod& pod, TimePoint until) {
  if (!pod.paused_until())
    for (const Member member : pod.members()) unwatch(member);
  pod.pause(until);
}

// Devices that have rung or disconnected meanwhile have an event at once.
void BrokerDevices::resume_paused(TimePoint now) {
  for (const auto& [name, pod] : book_.pods()) {
    if (!pod->paused_until() || *pod->paused_until() > now) continue;
    pod->resume();
    bool good = true;
    for (const Member member : pod->members()) {
      good = watch(member, kMemberEvents) && good;
      if (good) rewatch(member);
    }
    if (!good) pod->pause(now + kWatchAgain);
  }
}

void BrokerDevices::close(const BrokerPod& pod, std::vector<FileDescriptor> descriptors) {
  closer_.close(pod.name(), std::move(descriptors));
}

// Freeing memory takes no longer than filling it, which used the pod's own processor time. So the
// charge is limited, and a sidecar that ends with much memory does not delay its successor.
void BrokerDevices::charge_for_closing() {
  for (const auto& [name, spent] : closer_.take_spent())
    if (BrokerPod* const pod = book_.find_pod(name); pod != nullptr)
      pod->credits().charge_time(std::min<Duration>(spent, kTimePerRequest * kClosingRequestsMax));
}

void BrokerDevices::count() {
  counts_.devices = book_.device_count();
  counts_.buffers = book_.buffer_count();
}

void BrokerDevices::warn(std::string_view event, const BrokerPod& pod, std::string_view what) {
  lines_.write(LogLevel::kWarn, kLogger, event, now_(),
               [&](LogEvent& line) { line.field("container", pod.name()).field("what", what); });
}

}  // namespace fairlead::cni::node
