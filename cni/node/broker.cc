// long because it is one class: the pods, their devices, and what these ask for
#include "cni/node/broker.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cni/node/broker_file.h"
#include "cni/node/broker_probe.h"
#include "cni/node/memory_gauge.h"

namespace fairlead::cni::node {
namespace {

using broker::BufferId;
using broker::Message;
using broker::Refusal;
using broker::Request;
using Kind = broker::Message::Kind;

constexpr const char* kLogger = "broker";
constexpr std::size_t kEventsPerTurn = 64;
// Descriptors are used up, or a device was refused.
constexpr std::chrono::seconds kPause{1};
// Devices ring by shutdown(2), which nobody takes back: each ring is an edge.
constexpr std::uint32_t kMemberEvents = EPOLLIN | EPOLLRDHUP | EPOLLET;

TimePoint now_() { return std::chrono::steady_clock::now(); }

tl::unexpected<PluginError> failed(const char* what) {
  return fail(Code::kState, to_string(system_error(what, errno)));
}

std::size_t index_of(Refusal refusal) { return static_cast<std::size_t>(refusal); }

std::uint64_t random_instance() {
  std::random_device random;
  return (std::uint64_t{random()} << 32 | random()) | 1;
}

std::size_t descriptors_max() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<std::size_t>(limit.rlim_cur) : 0;
}

// A line that pods can cause at will.
void log_paced(LinePace& pace, std::string_view event, const std::string& pod,
               std::string_view what) {
  const auto left_out = pace.admit(now_());
  if (!left_out) return;
  LogEvent line(LogLevel::kWarn, kLogger, event);
  line.field("container", pod).field("what", what);
  if (*left_out != 0) line.field("left_out", *left_out);
}

}  // namespace

Outcome<std::unique_ptr<Broker>> Broker::create(BrokerSettings settings) {
  auto pods = PodWatch::open(settings.run_dir);
  if (!pods) return tl::unexpected(pods.error());
  FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return failed("epoll");
  FileDescriptor stop_event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_event) return failed("eventfd");
  std::unique_ptr<Broker> made(
      new Broker(std::move(settings), std::move(*pods), std::move(epoll), std::move(stop_event)));
  if (!made->watch(made->watch_.descriptor(), EPOLLIN) ||
      !made->watch(made->stop_event_.get(), EPOLLIN))
    return failed("epoll");
  const BrokerRecord record = load_broker_record(made->settings_.run_dir);
  made->fabric_ = record.fabric;
  made->instance_ = random_instance();
  made->buffers_max_ = std::min(descriptors_max() / 2, kBuffersPerNodeMax);
  made->book_.restore(record.owners);
  if (auto stored = store_broker_record(made->settings_.run_dir, record); !stored)
    return tl::unexpected(stored.error());
  made->remembered_ = made->book_.changes();
  return made;
}

Broker::Broker(BrokerSettings settings, PodWatch pods, FileDescriptor epoll,
               FileDescriptor stop_event)
    : settings_(std::move(settings)),
      watch_(std::move(pods)),
      epoll_(std::move(epoll)),
      stop_event_(std::move(stop_event)),
      shares_(descriptors_max(),
              [gauge = MemoryGauge::find(settings_.cgroup_root, "/proc/self/cgroup")] {
                return gauge.kernel_share();
              }) {}

Broker::~Broker() = default;

void Broker::stop() {
  const std::uint64_t one = 1;
  (void)!::write(stop_event_.get(), &one, sizeof one);
}

void Broker::run() {
  look();
  book_.forget_strangers();
  LogEvent(LogLevel::kInfo, kLogger, "ready")
      .field("fabric", to_string(fabric_))
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
    remember();
  }
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
  auto probe = make_probe(pod.pod);
  if (probe) {
    pod.probe = std::move(*probe);
    pod.trouble.clear();
    return true;
  }
  const std::string trouble = to_string(probe.error());
  if (std::exchange(pod.trouble, trouble) == trouble) return false;
  LogEvent(LogLevel::kWarn, kLogger, "pod_not_entered")
      .field("container", name)
      .field("what", trouble)
      .field("hint", "needs CAP_SYS_ADMIN and the node's /run/netns");
  return false;
}

void Broker::leave(const std::string& name) {
  for (const Member member : book_.members_of(name)) drop(member);
  (void)book_.remove_pod(name);
  shares_.forget(name);
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
  // Others may have freed what there was too little of.
  for (const Member member : book_.members_of(name)) refill(member);
}

bool Broker::probe_index(const std::string& name, Pod& pod, unsigned index, TimePoint now) {
  const auto connected =
      connect_device(pod.probe.get(), settings_.socket_name, index, settings_.sidecar_uid);
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
  pod.probe.reset();  // it is connected to somebody
  if (!pod.strangers.insert(index).second) return true;
  ++counts_.strangers;
  log_paced(hostile_pace_, "listener_of_another_user", name,
            settings_.socket_name + "-" + std::to_string(index));
  return true;
}

void Broker::take_in(const std::string& name, Pod& pod, unsigned index, TimePoint now) {
  pod.not_before[index] = now + kPause;
  const int fd = pod.probe.get();
  auto made = BrokerMember::create(std::move(pod.probe), index, instance_);
  if (!made || !watch(fd, kMemberEvents)) return;
  pod.connected.insert(index);
  pod.new_device_until = now + kNewDeviceTime;
  members_[fd] = std::move(*made);
  book_.charge(name, kRequestsPerDevice);
  const auto leaves = book_.connect(name, fd);
  if (!leaves) return;
  // It is not connected to again at once, in place of the next.
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

// Changing the events gives the edge again if there is one.
void Broker::rewatch(Member member) {
  epoll_event event{};
  event.events = kMemberEvents | (members_.at(member)->has_waiting() ? EPOLLOUT : 0u);
  event.data.fd = member;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, member, &event);
}

// A descriptor may have been closed by an earlier event of the same turn, or be another by now:
// nothing here waits, so a look in vain does no harm.
void Broker::handle(int fd, std::uint32_t events, TimePoint now) {
  if (fd == watch_.descriptor()) return look();
  const auto found = members_.find(fd);
  if (found == members_.end()) return;
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    drop(fd);
    return;
  }
  if ((events & EPOLLOUT) != 0) {
    const std::size_t before = found->second->waiting_descriptors();
    const auto flushed = found->second->flush();
    shares_.change_waiting(book_.pod_of(fd), before, found->second->waiting_descriptors());
    if (!flushed) {
      drop(fd);
      return;
    }
    if (!found->second->has_waiting()) rewatch(fd);
  }
  if (may_ask(book_.pod_of(fd), now)) serve(fd, now);
}

bool Broker::may_ask(const std::string& pod, TimePoint now) {
  const std::optional<Duration> wait = book_.spend(pod, now);
  if (!wait) return true;
  // Each device has an event when it is listened to again, whether it has asked or not: there has
  // to be something left then.
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

// Whoever has rung meanwhile, or has gone, has an event at once.
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

bool Broker::drop_hostile(Member member, const char* what) {
  const std::string name = book_.pod_of(member);
  const unsigned index = members_.at(member)->index();
  ++counts_.strangers;
  log_paced(hostile_pace_, "device_speaks_otherwise", name, what);
  drop(member);
  pods_.at(name).not_before[index] = now_() + kPause;
  return false;
}

bool Broker::drop(Member member) {
  const auto found = members_.find(member);
  if (found == members_.end()) return false;
  const std::string name = book_.pod_of(member);
  Pod& pod = pods_.at(name);
  pod.connected.erase(found->second->index());
  pod.not_before[found->second->index()] = now_();
  pod.next_probe = std::min(pod.next_probe, now_() + kProbeNoDevice);
  pod.buffers -= found->second->buffers.size();
  counts_.buffers -= found->second->buffers.size();
  shares_.change_waiting(name, found->second->waiting_descriptors(), 0);
  std::erase_if(held_grants_, [&](const auto& held) {
    if (held.second.owner != member) return false;
    shares_.grant_let_go(name);
    return true;
  });
  book_.disconnect(member);
  unfinished_.erase(member);
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
      if (device.requests().take_wish()) (void)send(member, {.kind = Kind::kRoom});
      return;
    }
    if (!request) {
      drop_hostile(member, request.error().what);
      return;
    }
    if (!apply(member, *request)) return;
  }
  unfinished_.insert(member);
}

bool Broker::apply(Member member, const Request& request) {
  const bool enrolled = book_.enrolled(member);
  if (enrolled == (request.kind == Request::Kind::kRegister))
    return drop_hostile(member, "registration that is missing, or comes twice");
  switch (request.kind) {
    case Request::Kind::kRegister:
      return enroll(member, request);
    case Request::Kind::kConnect:
      return introduce(member, request.peer);
    case Request::Kind::kGrant:
      return grant(member, request);
    case Request::Kind::kTake:
    case Request::Kind::kFree:
      return take_or_free(member, request);
  }
  return drop_hostile(member, "kind of a request");
}

bool Broker::enroll(Member member, const Request& request) {
  BrokerMember& device = *members_.at(member);
  if (request.channel_bytes == 0 || request.channel_bytes > broker::kChannelBytesMax)
    return drop_hostile(member, "size of a channel");
  const Refusal refusal = book_.enroll(member, request.peer);
  ++counts_.registrations[index_of(refusal)];
  if (refusal != Refusal::kNone) {
    const unsigned index = device.index();
    Pod& pod = pods_.at(book_.pod_of(member));
    if (send(member, {.kind = Kind::kRefused, .refusal = refusal, .peer = request.peer}))
      drop(member);
    pod.not_before[index] = now_() + kPause;
    return false;
  }
  device.layout = request.layout;
  device.channel_bytes = request.channel_bytes;
  counts_.devices = book_.device_count();
  // Before the device hears that the id is its own, so that it stays so whatever becomes of us.
  remember();
  if (!send(member, {.kind = Kind::kWelcome, .peer = request.peer, .fabric = fabric_}))
    return false;
  refill(member);
  deliver_held(member, request.peer);
  return members_.contains(member);
}

bool Broker::introduce(Member member, PeerId peer) {
  book_.charge(book_.pod_of(member), kRequestsPerConnect - 1);
  const std::optional<Member> other = book_.find(peer);
  const Refusal refusal = other ? make_channel(member, *other) : Refusal::kUnknownPeer;
  ++counts_.introductions[index_of(refusal)];
  if (refusal == Refusal::kNone) return members_.contains(member);
  if (!members_.contains(member)) return false;  // it asked for itself, and has gone
  return send(member, {.kind = Kind::kRefused, .refusal = refusal, .peer = peer});
}

// Made here: nobody gets what a pod made. In our network namespace, because a socket keeps alive
// the one in which it was made.
Refusal Broker::make_channel(Member member, Member other) {
  const BrokerMember& device = *members_.at(member);
  BrokerMember& visited = *members_.at(other);
  if (device.layout != visited.layout || device.channel_bytes != visited.channel_bytes)
    return Refusal::kVersion;
  const std::string& pod = book_.pod_of(member);
  if (visited.waiting() >= kOutboxMax / 2 ||
      (visited.has_waiting() &&
       !shares_.may_wait(book_.pod_of(other), descriptors_of(Kind::kChannel))))
    return Refusal::kBusy;
  if (!shares_.may_give(pod, now_())) {
    log_paced(limit_pace_, "limit", pod, "a channel: pods keep too much memory of the kernel");
    return Refusal::kLimit;
  }
  auto ends = broker::make_channel(device.channel_bytes);
  if (!ends) return Refusal::kFailed;
  shares_.given(pod, kChannelKernelBytes, now_());
  const Message visit{.kind = Kind::kChannel,
                      .side = 1,
                      .layout = device.layout,
                      .peer = book_.peer_of(member),
                      .pod = book_.number_of(book_.pod_of(member))};
  const Message answer{.kind = Kind::kChannel,
                       .side = 0,
                       .layout = device.layout,
                       .peer = book_.peer_of(other),
                       .pod = book_.number_of(book_.pod_of(other))};
  if (!send(other, visit, (*ends)[1].descriptors())) return Refusal::kUnknownPeer;
  // Without its answer the other side finds its bell without a peer.
  (void)send(member, answer, (*ends)[0].descriptors());
  return Refusal::kNone;
}

Message Broker::granted(Member owner, const BufferId& buffer) const {
  return {.kind = Kind::kGranted,
          .peer = book_.peer_of(owner),
          .buffer = buffer,
          .pod = book_.number_of(book_.pod_of(owner))};
}

bool Broker::grant(Member member, const Request& request) {
  const auto& buffers = members_.at(member)->buffers;
  const auto found = buffers.find(request.buffer.number);
  if (request.buffer.instance != instance_ || found == buffers.end())
    return drop_hostile(member, "buffer of somebody else");
  const std::optional<Member> other = book_.find(request.peer);
  if (!other) {
    // A peer that is known but not connected may still come. An unknown peer has gone.
    if (!book_.has_owner(request.peer)) return true;
    const std::string& pod = book_.pod_of(member);
    if (!shares_.may_hold_grant(pod) || held_grants_.count(request.peer) >= kHeldGrantsPerPeerMax) {
      ++counts_.records_lost;
      log_paced(limit_pace_, "limit", pod, "a grant: too many wait for devices that have not come");
      return true;
    }
    held_grants_.emplace(request.peer, HeldGrant{member, request.buffer});
    shares_.grant_held(pod);
    return true;
  }
  const int memory = found->second.memory.get();
  (void)send(*other, granted(member, request.buffer), std::span(&memory, 1));
  return members_.contains(member);
}

void Broker::deliver_held(Member member, PeerId peer) {
  std::vector<HeldGrant> held;
  const auto [begin, end] = held_grants_.equal_range(peer);
  for (auto at = begin; at != end; ++at) held.push_back(at->second);
  held_grants_.erase(begin, end);
  for (const auto& [owner, buffer] : held) shares_.grant_let_go(book_.pod_of(owner));
  for (const auto& [owner, buffer] : held) {
    const auto from = members_.find(owner);
    if (from == members_.end() || !members_.contains(member)) continue;
    const auto found = from->second->buffers.find(buffer.number);
    if (found == from->second->buffers.end()) continue;
    const int memory = found->second.memory.get();
    (void)send(member, granted(owner, buffer), std::span(&memory, 1));
  }
}

bool Broker::take_or_free(Member member, const Request& request) {
  BrokerMember& device = *members_.at(member);
  const auto found = device.buffers.find(request.buffer.number);
  const bool take = request.kind == Request::Kind::kTake;
  if (request.buffer.instance != instance_ || found == device.buffers.end() ||
      (take && !found->second.blank))
    return drop_hostile(member, "buffer of somebody else, or taken twice");
  if (std::exchange(found->second.blank, false)) --device.blanks;
  if (!take) {
    device.buffers.erase(found);
    --pods_.at(book_.pod_of(member)).buffers;
    --counts_.buffers;
  }
  refill(member);
  return members_.contains(member);
}

bool Broker::may_have_buffer(const Pod& pod, const BrokerMember& device) const {
  const bool scarce = counts_.buffers >= buffers_max_ / 4 * 3;
  return device.buffers.size() < kBuffersPerDeviceMax && counts_.buffers < buffers_max_ &&
         pod.buffers < (scarce ? kBuffersPerPodWhenScarce : kBuffersPerPodMax);
}

void Broker::refill(Member member) {
  const auto device = members_.find(member);
  if (device == members_.end() || !book_.enrolled(member)) return;
  Pod& pod = pods_.at(book_.pod_of(member));
  while (device->second->blanks < kBlanksPerDevice && !device->second->has_waiting()) {
    const std::string& name = book_.pod_of(member);
    auto blank = may_have_buffer(pod, *device->second) && shares_.may_give(name, now_())
                     ? broker::make_blank()
                     : Result<FileDescriptor>(Error{Errc::kExhausted, "buffers"});
    if (!blank) {
      ++counts_.buffers_refused;
      log_paced(limit_pace_, "limit", name, "a buffer for its stock");
      return;
    }
    shares_.given(name, kBufferKernelBytes, now_());
    const BufferId id{instance_, ++buffers_made_};
    const int memory = blank->get();
    device->second->buffers[id.number].memory = std::move(*blank);
    ++device->second->blanks;
    ++pod.buffers;
    ++counts_.buffers;
    if (!send(member, {.kind = Kind::kBlank, .buffer = id}, std::span(&memory, 1))) return;
  }
}

// False when the device has been dropped, because it is gone. One that does not read misses
// records.
bool Broker::send(Member member, const Message& message, std::span<const int> fds) {
  BrokerMember& device = *members_.at(member);
  const bool waited = device.has_waiting();
  const std::string& pod = book_.pod_of(member);
  const std::size_t before = device.waiting_descriptors();
  Result<void> sent = Error{Errc::kExhausted, "descriptors that wait"};
  if (!waited || shares_.may_wait(pod, fds.size())) sent = device.send(message, fds);
  shares_.change_waiting(pod, before, device.waiting_descriptors());
  if (!sent && sent.error().code != Errc::kExhausted) return drop(member);
  if (!sent) {
    ++counts_.records_lost;
    log_paced(limit_pace_, "limit", pod, "a record: a device does not read");
  }
  if (!waited && device.has_waiting()) rewatch(member);
  return true;
}

void Broker::remember() {
  if (remembered_ == book_.changes()) return;
  const auto stored = store_broker_record(settings_.run_dir, {fabric_, book_.ownerships()});
  if (stored) remembered_ = book_.changes();
  const std::string trouble = stored ? "" : stored.error().message;
  if (std::exchange(record_trouble_, trouble) == trouble || stored) return;
  LogEvent(LogLevel::kWarn, kLogger, "record_not_written").field("what", trouble);
}

}  // namespace fairlead::cni::node
