#include "cni/node/broker.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "cni/node/broker_door.h"
#include "cni/node/broker_file.h"

namespace fairlead::cni::node {
namespace {

using broker::Message;
using broker::Refusal;
using Kind = broker::Message::Kind;

constexpr const char* kLogger = "broker";
constexpr std::size_t kEventsPerTurn = 64;
// Descriptors are used up, and a door that cannot be emptied would wake us for ever.
constexpr std::chrono::seconds kNoDescriptorsPause{1};

TimePoint now_() { return std::chrono::steady_clock::now(); }

tl::unexpected<PluginError> failed(const char* what) {
  return fail(Code::kState, to_string(system_error(what, errno)));
}

std::size_t index(Refusal refusal) { return static_cast<std::size_t>(refusal); }

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
  if (!made->watch(made->watch_.descriptor()) || !made->watch(made->stop_event_.get()))
    return failed("epoll");
  const BrokerRecord record = load_broker_record(made->settings_.run_dir);
  made->fabric_ = record.fabric;
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
      stop_event_(std::move(stop_event)) {}

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
      .field("pods", std::uint64_t{listeners_.size()});
  for (;;) {
    std::array<epoll_event, kEventsPerTurn> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   milliseconds_to_wait(now_()));
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == stop_event_.get()) return;
      handle(fd, now_());
    }
    if (now_() >= next_look_) look();
    resume_paused(now_());
    remember();
  }
}

int Broker::milliseconds_to_wait(TimePoint now) const {
  TimePoint until = next_look_;
  for (const auto& [pod, door] : doors_)
    if (door.paused_until) until = std::min(until, *door.paused_until);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  return static_cast<int>(std::max<std::int64_t>(0, left));
}

void Broker::look() {
  const WatchedPods& pods = watch_.look();
  std::vector<std::string> gone;
  for (const auto& [pod, door] : doors_)
    if (const auto found = pods.find(pod); found == pods.end() || found->second != door.pod)
      gone.push_back(pod);
  for (const std::string& pod : gone) close_door(pod);
  std::uint64_t closed = 0;
  for (const auto& [pod, what] : pods) {
    if (doors_.contains(pod) || book_.add_pod(pod))
      doors_.try_emplace(pod, Door{what, {}, {}, {}});
    else
      ++closed;
  }
  for (auto& [pod, door] : doors_) {
    if (!door.listener) open_door(pod, door);
    if (!door.listener) ++closed;
  }
  const auto interval = closed == 0 ? kLookInterval : kRetryInterval;
  next_look_ = now_() + interval;
  counts_.doors = listeners_.size();
  counts_.doors_failed = closed;
  counts_.devices = book_.device_count();
}

void Broker::open_door(const std::string& pod, Door& door) {
  auto listener = listen_in(door.pod, settings_.socket_name);
  if (listener && !watch(listener->get())) listener = system_error("epoll", errno);
  if (listener) {
    door.listener = std::move(*listener);
    listeners_[door.listener.get()] = pod;
    LogEvent(LogLevel::kDebug, kLogger, "door_opened").field("container", pod);
    return;
  }
  const std::string trouble = to_string(listener.error());
  if (std::exchange(door.trouble, trouble) == trouble) return;
  LogEvent(LogLevel::kWarn, kLogger, "door_failed")
      .field("container", pod)
      .field("what", trouble)
      .field("hint",
             "needs CAP_SYS_ADMIN, the node's /run/netns, and a name that nobody has taken");
}

void Broker::close_door(const std::string& pod) {
  for (const BrokerBook::Member member : book_.members_of(pod)) drop(member);
  (void)book_.remove_pod(pod);
  const auto door = doors_.find(pod);
  listeners_.erase(door->second.listener.get());
  doors_.erase(door);
  LogEvent(LogLevel::kDebug, kLogger, "door_closed").field("container", pod);
}

bool Broker::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST;
}

void Broker::unwatch(int fd) { (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

// A descriptor may have been closed by an earlier event of the same turn, or be another by now:
// nothing here waits, so a look in vain does no harm.
void Broker::handle(int fd, TimePoint now) {
  if (fd == watch_.descriptor()) return look();
  if (const auto door = listeners_.find(fd); door != listeners_.end())
    return accept(std::string(door->second), now);
  if (!members_.contains(fd)) return;
  if (may_ask(book_.pod_of(fd), now)) read(fd);
}

bool Broker::may_ask(const std::string& pod, TimePoint now) {
  const std::optional<Duration> wait = book_.spend(pod, now);
  if (wait) pause(pod, now + *wait);
  return !wait;
}

void Broker::pause(const std::string& pod, TimePoint until) {
  Door& door = doors_.at(pod);
  if (!door.paused_until) {
    unwatch(door.listener.get());
    for (const BrokerBook::Member member : book_.members_of(pod)) unwatch(member);
  }
  door.paused_until = until;
}

void Broker::resume_paused(TimePoint now) {
  for (auto& [pod, door] : doors_) {
    if (!door.paused_until || *door.paused_until > now) continue;
    door.paused_until.reset();
    bool good = watch(door.listener.get());
    for (const BrokerBook::Member member : book_.members_of(pod)) good = watch(member) && good;
    if (!good) door.paused_until = now + kNoDescriptorsPause;
  }
}

void Broker::accept(const std::string& pod, TimePoint now) {
  if (!may_ask(pod, now)) return;
  auto socket = accept_sidecar(doors_.at(pod).listener.get(), settings_.sidecar_uid);
  if (!socket) {
    if (socket.error().code == Errc::kWouldBlock) return;
    if (socket.error().code != Errc::kPermission) return pause(pod, now + kNoDescriptorsPause);
    ++counts_.strangers;
    return;
  }
  const int fd = socket->get();
  if (!watch(fd)) return;
  members_[fd] = std::move(*socket);
  if (const auto leaves = book_.connect(pod, fd)) drop(*leaves);
}

void Broker::drop(BrokerBook::Member member) {
  book_.disconnect(member);
  members_.erase(member);
  counts_.devices = book_.device_count();
}

void Broker::read(BrokerBook::Member member) {
  const auto received = broker::receive(member);
  if (!received) {
    if (received.error().code == Errc::kWouldBlock) return;
    if (received.error().code != Errc::kPeerGone) ++counts_.strangers;
    return drop(member);
  }
  const Message& message = received->message;
  const bool enrolled = book_.enrolled(member);
  if (message.kind == Kind::kRegister && !enrolled) return enroll(member, message.peer);
  if (message.kind == Kind::kIntroduce && enrolled) return introduce(member, message.peer);
  ++counts_.strangers;
  drop(member);
}

void Broker::enroll(BrokerBook::Member member, PeerId peer) {
  const Refusal refusal = book_.enroll(member, peer);
  ++counts_.registrations[index(refusal)];
  if (refusal != Refusal::kNone) {
    refuse(member, peer, refusal);
    return drop(member);
  }
  counts_.devices = book_.device_count();
  // Before the device hears that the id is its own, so that it stays so whatever becomes of us.
  remember();
  const Message welcome{.kind = Kind::kWelcome, .peer = peer, .fabric = fabric_};
  if (!broker::send(member, welcome)) drop(member);
}

void Broker::introduce(BrokerBook::Member member, PeerId peer) {
  const std::optional<BrokerBook::Member> other = book_.find(peer);
  const Refusal refusal = other ? pass_ends(member, *other) : Refusal::kUnknownPeer;
  ++counts_.introductions[index(refusal)];
  if (refusal != Refusal::kNone) refuse(member, peer, refusal);
}

// Made here and not by who asks: a socket keeps the network namespace alive in which it was made,
// and nobody shall hold on to the end of another.
Refusal Broker::pass_ends(BrokerBook::Member member, BrokerBook::Member other) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return Refusal::kFailed;
  const FileDescriptor theirs(ends[0]), ours(ends[1]);
  const Message visitor{.kind = Kind::kVisitor, .peer = book_.peer_of(member)};
  const auto told = broker::send(other, visitor, theirs.get());
  if (!told && told.error().code == Errc::kWouldBlock) return Refusal::kBusy;
  if (!told) return Refusal::kUnknownPeer;  // about to be dropped
  const Message introduced{.kind = Kind::kIntroduced, .peer = book_.peer_of(other)};
  // The visitor finds its end closed.
  if (!broker::send(member, introduced, ours.get())) return Refusal::kBusy;
  return Refusal::kNone;
}

// Who does not read even that has to come again.
void Broker::refuse(BrokerBook::Member member, PeerId peer, Refusal refusal) {
  const Message message{.kind = Kind::kRefused, .refusal = refusal, .peer = peer};
  if (!broker::send(member, message)) drop(member);
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
