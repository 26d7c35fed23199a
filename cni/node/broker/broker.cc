// long because it is one class: the pods, their devices, and what these ask for
#include "cni/node/broker/broker.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cni/node/agent/memory_gauge.h"
#include "cni/node/broker/broker_file.h"
#include "cni/node/broker/broker_meter.h"
#include "cni/node/pods/sidecar_socket.h"
#include "cni/node/pods/thread_user.h"

namespace fairlead::cni::node {
namespace {

using broker::Message;
using broker::Refusal;
using broker::Request;
using Kind = broker::Message::Kind;

constexpr const char* kLogger = "broker";
constexpr std::size_t kEventsPerTurn = 64;
// Descriptors are used up, or a device was refused.
constexpr std::chrono::seconds kPause{1};
// Devices ring by shutdown(2), which is permanent: each ring is an edge.
constexpr std::uint32_t kMemberEvents = EPOLLIN | EPOLLRDHUP | EPOLLET;

TimePoint now_() { return std::chrono::steady_clock::now(); }

tl::unexpected<PluginError> failed(const char* what) {
  return fail(Code::kState, to_string(system_error(what, errno)));
}

// The lower half is left for the number of the connection.
std::uint64_t random_instance() {
  std::random_device random;
  return std::uint64_t{random() | 1u} << 32;
}

std::size_t descriptors_max() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<std::size_t>(limit.rlim_cur) : 0;
}

}  // namespace

Outcome<std::unique_ptr<Broker>> Broker::create(BrokerSettings settings) {
  auto pods = SMC_TRY(PodWatch::open(settings.run_dir));
  FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return failed("epoll");
  auto stop_event = EventDescriptor::create();
  if (!stop_event) return failed("eventfd");
  std::unique_ptr<Broker> made(
      new Broker(std::move(settings), std::move(pods), std::move(epoll), std::move(*stop_event)));
  if (!made->watch(made->watch_.descriptor(), EPOLLIN) ||
      !made->watch(made->stop_event_.get(), EPOLLIN))
    return failed("epoll");
  const BrokerRecord record = load_broker_record(made->settings_.run_dir);
  made->requests_.set_fabric(record.fabric);
  made->instance_ = random_instance();
  made->requests_.set_buffers_max(std::min(descriptors_max() / 2, kBuffersPerNodeMax));
  made->book_.restore(record.owners);
  SMC_TRY(store_broker_record(made->settings_.run_dir, record));
  made->remembered_.changes = made->book_.changes();
  return made;
}

Broker::Broker(BrokerSettings settings, PodWatch pods, FileDescriptor epoll,
               EventDescriptor stop_event)
    : settings_(std::move(settings)),
      watch_(std::move(pods)),
      epoll_(std::move(epoll)),
      stop_event_(std::move(stop_event)),
      shares_(descriptors_max(),
              [gauge = MemoryGauge::find(settings_.cgroup_root, "/proc/self/cgroup")] {
                return gauge.kernel_share();
              }) {}

Broker::~Broker() = default;

void Broker::stop() { stop_event_.signal(); }

void Broker::run() {
  take_own_user();
  look();
  book_.forget_strangers();
  LogEvent(LogLevel::kInfo, kLogger, "ready")
      .field("fabric", to_string(requests_.fabric()))
      .field("pods", std::uint64_t{pods_.size()});
  for (;;) {
    std::array<epoll_event, kEventsPerTurn> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   milliseconds_to_wait(now_()));
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.fd == stop_event_.get()) return;
      handle(event.data.fd, event.events, now_());
    }
    for (const Member member : std::exchange(unfinished_, {})) serve(member, now_());
    if (now_() >= next_look_) look();
    probe_due(now_());
    resume_paused(now_());
    charge_for_closing();
    remember();
  }
}

// If a real user has more than about 2,000 sockets in flight, the kernel lets each sender of that
// user wait for its garbage collector. Any process of a container that runs as root can have that
// many, so the sending thread uses another real user. None of its operations depends on the real
// id.
void Broker::take_own_user() {
  const auto user = take_thread_user();
  if (user) return;
  LogEvent(LogLevel::kWarn, kLogger, "user_shared")
      .field("what", to_string(user.error()))
      .field("hint", "needs CAP_SETUID; processes of root in pods can delay new channels");
}

int Broker::milliseconds_to_wait(TimePoint now) const {
  if (!unfinished_.empty()) return 0;
  TimePoint until = next_look_;
  for (const auto& [name, pod] : pods_) {
    if (pod.paused_until)
      until = std::min(until, *pod.paused_until);
    else if (pod.probe)
      until = std::min(until, pod.next_probe);
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  return static_cast<int>(std::max<std::int64_t>(0, left));
}

void Broker::look() {
  const WatchedPods& seen = watch_.look();
  std::vector<std::string> gone;
  for (const auto& [name, pod] : pods_)
    if (const auto found = seen.find(name); found == seen.end() || found->second != pod.pod)
      gone.push_back(name);
  for (const std::string& name : gone) leave(name);
  std::uint64_t refused = 0, open = 0;
  for (const auto& [name, what] : seen) {
    if (pods_.contains(name)) continue;
    if (book_.add_pod(name))
      pods_[name].pod = what;
    else
      ++refused;
  }
  for (auto& [name, pod] : pods_) (pod.probe || enter(name, pod) ? open : refused) += 1;
  next_look_ = now_() + (refused == 0 ? kLookInterval : kRetryInterval);
  counts_.pods = open;
  counts_.pods_failed = refused;
  counts_.devices = book_.device_count();
}

bool Broker::enter(const std::string& name, Pod& pod) {
  auto probe = make_socket_in(pod.pod, Hears::kNothing);
  if (probe) {
    pod.probe = std::move(*probe);
    pod.trouble.clear();
    return true;
  }
  const std::string trouble = to_string(probe.error());
  if (std::exchange(pod.trouble, trouble) == trouble) return false;
  lines_.write(LogLevel::kWarn, kLogger, "pod_not_entered", now_(), [&](LogEvent& line) {
    line.field("container", name)
        .field("what", trouble)
        .field("hint", "needs CAP_SYS_ADMIN and the node's /run/netns");
  });
  return false;
}

void Broker::leave(const std::string& name) {
  for (const Member member : book_.members_of(name)) drop(member);
  (void)book_.remove_pod(name);
  shares_.forget(name);
  unread_.forget(name);
  pods_.erase(name);
  LogEvent(LogLevel::kDebug, kLogger, "pod_left").field("container", name);
}

void Broker::probe_due(TimePoint now) {
  for (auto& [name, pod] : pods_)
    if (pod.probe && now >= pod.next_probe && !pod.paused_until) probe(name, pod, now);
}

void Broker::probe(const std::string& name, Pod& pod, TimePoint now) {
  unsigned silent = 0;
  for (unsigned index = 0; index <= broker::kSocketIndexMax && silent < kProbeGapMax; ++index) {
    if (pod.connected.contains(index)) {
      silent = 0;
      continue;
    }
    const auto refused = pod.not_before.find(index);
    if (refused != pod.not_before.end() && now < refused->second) {
      silent = 0;
      continue;
    }
    if (!pod.probe && !enter(name, pod)) break;
    if (!may_ask(name, now)) return;
    silent = probe_index(name, pod, index, now) ? 0 : silent + 1;
  }
  if (!pod.probe && !enter(name, pod)) next_look_ = std::min(next_look_, now + kRetryInterval);
  const auto interval = pod.connected.empty()        ? kProbeNoDevice
                        : now < pod.new_device_until ? kProbeNewDevice
                                                     : kProbeSettled;
  pod.next_probe = now + interval;
  if (pod.records_wait) release(name);  // a device that went may have closed its end
  // Others may have freed the missing resource.
  for (const Member member : book_.members_of(name)) requests_.refill(member);
}

bool Broker::probe_index(const std::string& name, Pod& pod, unsigned index, TimePoint now) {
  const BrokerMeter meter(book_, name);
  const auto connected = connect_to_sidecar(
      pod.probe.get(), settings_.socket_name + "-" + std::to_string(index), settings_.sidecar_uid);
  if (connected) {
    take_in(name, pod, index, now);
    return true;
  }
  if (connected.error().code == Errc::kNotFound) {
    pod.strangers.erase(index);
    return false;
  }
  pod.not_before[index] = now + kPause;
  if (connected.error().code != Errc::kPermission) return true;
  pod.probe.reset();  // the probe is connected
  if (!pod.strangers.insert(index).second) return true;
  ++counts_.strangers;
  warn("listener_of_another_user", name, settings_.socket_name + "-" + std::to_string(index));
  return true;
}

void Broker::take_in(const std::string& name, Pod& pod, unsigned index, TimePoint now) {
  const BrokerMeter meter(book_, name);
  pod.not_before[index] = now + kPause;
  const int fd = pod.probe.get();
  auto made = BrokerMember::create(std::move(pod.probe), name, unread_, index,
                                   instance_ | ++connections_made_);
  if (!made || !watch(fd, kMemberEvents)) return;
  pod.connected.insert(index);
  pod.new_device_until = now + kNewDeviceTime;
  members_[fd] = std::move(*made);
  book_.charge(name, kRequestsPerDevice);
  const auto leaves = book_.connect(name, fd);
  if (!leaves) return;
  // Do not reconnect to it at once instead of the next one.
  const unsigned left = members_.at(*leaves)->index();
  drop(*leaves);
  pod.not_before[left] = now + kPause;
}

bool Broker::watch(int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST;
}

void Broker::unwatch(int fd) { (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

// Changing the events triggers the edge again if a condition holds.
void Broker::rewatch(Member member) {
  epoll_event event{};
  const bool room = wants_room(member);
  members_.at(member)->watched_for_room = room;
  event.events = kMemberEvents | (room ? EPOLLOUT : 0u);
  event.data.fd = member;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, member, &event);
}

bool Broker::wants_room(Member member) const {
  const std::string& pod = book_.pod_of(member);
  return members_.at(member)->has_waiting() ||
         (pods_.at(pod).records_wait && unread_.has_unread(pod, member));
}

// EPOLLOUT arrives with each record that a device reads. A change of the events triggers one more,
// so earlier reads are not missed. Therefore the events are changed only when necessary.
void Broker::watch_for_room(const std::string& name) {
  for (const Member member : book_.members_of(name))
    if (members_.at(member)->watched_for_room != wants_room(member)) rewatch(member);
}

void Broker::release(const std::string& of) {
  const std::string name = of;  // a copy: `of` may belong to a member that goes
  const BrokerMeter meter(book_, name);
  bool wait = false;
  for (const Member member : book_.members_of(name)) {
    BrokerMember& device = *members_.at(member);
    if (!device.has_waiting()) continue;
    const std::size_t before = device.waiting_descriptors();
    const auto flushed = device.flush();
    shares_.change_waiting(name, before, device.waiting_descriptors());
    if (flushed)
      wait = wait || device.has_waiting();
    else
      drop(member);
  }
  pods_.at(name).records_wait = wait;
  watch_for_room(name);
}

// An earlier event of the same turn may have closed the descriptor, or its number may be in use
// again. No call here blocks, so an unnecessary check is harmless.
void Broker::handle(int fd, std::uint32_t events, TimePoint now) {
  if (fd == watch_.descriptor()) return look();
  const auto found = members_.find(fd);
  if (found == members_.end()) return;
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    drop(fd);
    return;
  }
  if ((events & EPOLLOUT) != 0) {
    release(book_.pod_of(fd));
    if (!members_.contains(fd)) return;
  }
  if (may_ask(book_.pod_of(fd), now)) serve(fd, now);
}

bool Broker::may_ask(const std::string& pod, TimePoint now) {
  const std::optional<Duration> wait = book_.spend(pod, now);
  if (!wait) return true;
  // Each device has an event when it is watched again, with or without a request. Some credits must
  // be left for that.
  const std::chrono::duration<double> looks(
      2.0 * static_cast<double>(book_.members_of(pod).size()) / kRequestsPerSecond);
  pause(pod, now + *wait + std::chrono::ceil<std::chrono::milliseconds>(looks));
  return false;
}

void Broker::pause(const std::string& name, TimePoint until) {
  Pod& pod = pods_.at(name);
  if (!pod.paused_until)
    for (const Member member : book_.members_of(name)) unwatch(member);
  pod.paused_until = until;
}

// Devices that have rung or disconnected meanwhile have an event at once.
void Broker::resume_paused(TimePoint now) {
  for (auto& [name, pod] : pods_) {
    if (!pod.paused_until || *pod.paused_until > now) continue;
    pod.paused_until.reset();
    bool good = true;
    for (const Member member : book_.members_of(name)) {
      good = watch(member, kMemberEvents) && good;
      if (good) rewatch(member);
    }
    if (!good) pod.paused_until = now + kPause;
  }
}

BrokerMember* Broker::find(Member member) {
  const auto found = members_.find(member);
  return found == members_.end() ? nullptr : found->second.get();
}

void Broker::avoid(const std::string& pod, unsigned index) {
  pods_.at(pod).not_before[index] = now_() + kPause;
}

bool Broker::drop_hostile(Member member, const char* what) {
  const std::string name = book_.pod_of(member);
  const unsigned index = members_.at(member)->index();
  ++counts_.strangers;
  warn("device_speaks_otherwise", name, what);
  drop(member);
  avoid(name, index);
  return false;
}

bool Broker::drop(Member member) {
  const auto found = members_.find(member);
  if (found == members_.end()) return false;
  const std::string name = book_.pod_of(member);
  const BrokerMeter meter(book_, name);
  Pod& pod = pods_.at(name);
  pod.connected.erase(found->second->index());
  pod.not_before[found->second->index()] = now_();
  pod.next_probe = std::min(pod.next_probe, now_() + kProbeNoDevice);
  pod.buffers -= found->second->buffers.size();
  counts_.buffers -= found->second->buffers.size();
  shares_.change_waiting(name, found->second->waiting_descriptors(), 0);
  requests_.forget(member);
  closer_.close(name, found->second->take_descriptors());
  book_.disconnect(member);
  unfinished_.erase(member);
  unwatch(member);  // its socket may stay open
  members_.erase(found);
  counts_.devices = book_.device_count();
  return false;
}

void Broker::serve(Member member, TimePoint now) {
  const auto found = members_.find(member);
  if (found == members_.end()) return;
  BrokerMember& device = *found->second;
  const std::string pod = book_.pod_of(member);
  if (pods_.at(pod).paused_until) return;
  for (int i = 0; i < kRequestsPerTurn; ++i) {
    if (!may_ask(pod, now)) return;
    const auto request = device.requests().take();
    if (!request && request.error().code == Errc::kWouldBlock) {
      book_.charge(pod, -1);
      if (device.requests().take_wish()) (void)send(member, {.kind = Kind::kRoom}, {});
      return;
    }
    if (!request) {
      drop_hostile(member, request.error().what);
      return;
    }
    if (!requests_.apply(member, *request)) return;
  }
  unfinished_.insert(member);
}

// False if the device was dropped because it has disconnected. A device that does not read misses
// records.
bool Broker::send(Member member, const Message& message, std::span<const int> fds) {
  BrokerMember& device = *members_.at(member);
  const bool waited = device.has_waiting();
  const std::string& pod = book_.pod_of(member);
  const std::size_t before = device.waiting_descriptors();
  Result<void> sent = Error{Errc::kExhausted, "descriptors that wait"};
  if ((!waited || shares_.may_wait(pod, fds.size())) && !book_.shunned(pod)) {
    const BrokerMeter meter(book_, pod);
    sent = device.send(message, fds);
  }
  shares_.change_waiting(pod, before, device.waiting_descriptors());
  if (!sent && sent.error().code != Errc::kExhausted) return drop(member);
  if (!sent) {
    ++counts_.records_lost;
    warn("limit", pod, "a record: a device does not read");
  }
  if (!waited && device.has_waiting()) {
    pods_.at(pod).records_wait = true;
    watch_for_room(pod);
  }
  return true;
}

// Freeing memory takes no longer than filling it, which used the pod's own processor time. So the
// charge is limited, and a sidecar that ends with much memory does not delay its successor.
void Broker::charge_for_closing() {
  for (const auto& [pod, spent] : closer_.take_spent())
    charge_time(book_, pod, std::min<Duration>(spent, kTimePerRequest * kClosingRequestsMax));
}

void Broker::warn(std::string_view event, const std::string& pod, std::string_view what) {
  lines_.write(LogLevel::kWarn, kLogger, event, now_(),
               [&](LogEvent& line) { line.field("container", pod).field("what", what); });
}

void Broker::remember() {
  if (remembered_.changes == book_.changes()) return;
  const auto stored =
      store_broker_record(settings_.run_dir, {requests_.fabric(), book_.ownerships()});
  if (stored) remembered_.changes = book_.changes();
  const std::string trouble = stored ? "" : stored.error().message;
  if (std::exchange(remembered_.trouble, trouble) == trouble || stored) return;
  LogEvent(LogLevel::kWarn, kLogger, "record_not_written").field("what", trouble);
}

}  // namespace fairlead::cni::node
