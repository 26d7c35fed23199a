#include "cni/node/broker/broker.h"

#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <random>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cni/node/agent/memory_gauge.h"
#include "cni/node/pods/sidecar_socket.h"
#include "cni/node/pods/thread_user.h"

namespace fairlead::cni::node {
namespace {

constexpr const char* kLogger = "broker";
constexpr std::size_t kEventsPerTurn = 64;

TimePoint now_() { return std::chrono::steady_clock::now(); }

tl::unexpected<PluginError> failed(const char* what) {
  return fail(Code::kState, to_string(system_error(what, errno)));
}

// The lower half is for the number of the connection.
std::uint64_t random_instance() {
  std::random_device random;
  return std::uint64_t{random() | 1u} << 32;
}

std::size_t descriptors_max() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<std::size_t>(limit.rlim_cur) : 0;
}

}  // namespace

Outcome<std::unique_ptr<Broker>> Broker::create(BrokerSettings settings, PodWatch pods) {
  FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return failed("epoll");
  auto stop_event = EventDescriptor::create();
  if (!stop_event) return failed("eventfd");
  std::unique_ptr<Broker> made(
      new Broker(std::move(settings), std::move(pods), std::move(epoll), std::move(*stop_event)));
  const int changes = made->watch_.descriptor();
  if ((changes >= 0 && !made->devices_.watch(changes, EPOLLIN)) ||
      !made->devices_.watch(made->stop_event_.get(), EPOLLIN))
    return failed("epoll");
  SMC_TRY(made->file_.take_over(made->book_));
  return made;
}

Broker::Broker(BrokerSettings settings, PodWatch pods, FileDescriptor epoll,
               EventDescriptor stop_event)
    : settings_(std::move(settings)),
      watch_(std::move(pods)),
      epoll_(std::move(epoll)),
      stop_event_(std::move(stop_event)),
      instance_(random_instance()),
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
      .field("fabric", to_string(file_.fabric()))
      .field("pods", std::uint64_t{book_.pods().size()});
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
    devices_.resume_paused(now_());
    devices_.charge_for_closing();
    file_.remember(book_);
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
  for (const auto& [name, pod] : book_.pods()) {
    if (pod->paused_until())
      until = std::min(until, *pod->paused_until());
    else if (pod->probe().has_socket())
      until = std::min(until, pod->probe().next());
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  return static_cast<int>(std::max<std::int64_t>(0, left));
}

void Broker::look() {
  const WatchedPods& seen = watch_.look();
  std::vector<BrokerPod*> gone;
  for (const auto& [name, pod] : book_.pods())
    if (const auto found = seen.find(name); found == seen.end() || found->second != pod->watched())
      gone.push_back(pod.get());
  for (BrokerPod* const pod : gone) leave(*pod);
  std::uint64_t refused = 0, open = 0;
  for (const auto& [name, what] : seen)
    if (book_.find_pod(name) == nullptr && book_.add_pod(name, what) == nullptr) ++refused;
  for (const auto& [name, pod] : book_.pods())
    (pod->probe().has_socket() || enter(*pod) ? open : refused) += 1;
  next_look_ = now_() + (refused == 0 ? kLookInterval : kRetryInterval);
  counts_.pods = open;
  counts_.pods_failed = refused;
  devices_.count();
}

bool Broker::enter(BrokerPod& pod) {
  auto socket = make_socket_in(pod.watched(), Hears::kNothing);
  if (socket) {
    pod.probe().entered(std::move(*socket));
    return true;
  }
  // A file that its creator has not mounted on yet, or one that is no pod.
  if (socket.error().code == Errc::kMalformed) return false;
  const std::string trouble = to_string(socket.error());
  if (!pod.probe().not_entered(trouble)) return false;
  devices_.lines().write(LogLevel::kWarn, kLogger, "pod_not_entered", now_(), [&](LogEvent& line) {
    line.field("container", pod.name())
        .field("what", trouble)
        .field("hint", "needs CAP_SYS_ADMIN and the node's /run/netns");
  });
  return false;
}

void Broker::leave(BrokerPod& pod) {
  const std::string name = pod.name();
  for (const Member member : pod.members()) devices_.drop(member);
  (void)book_.remove_pod(pod);
  LogEvent(LogLevel::kDebug, kLogger, "pod_left").field("container", name);
}

void Broker::probe_due(TimePoint now) {
  for (const auto& [name, pod] : book_.pods())
    if (pod->probe().has_socket() && now >= pod->probe().next() && !pod->paused_until())
      probe(*pod, now);
}

void Broker::probe(BrokerPod& pod, TimePoint now) {
  PodProbe& probe = pod.probe();
  unsigned silent = 0;
  for (unsigned index = 0; index <= broker::kSocketIndexMax && silent < kProbeGapMax; ++index) {
    if (probe.skips(index, now)) {
      silent = 0;
      continue;
    }
    if (!probe.has_socket() && !enter(pod)) break;
    if (!devices_.may_ask(pod, now)) return;
    silent = probe_index(pod, index, now) ? 0 : silent + 1;
  }
  if (!probe.has_socket() && !enter(pod)) next_look_ = std::min(next_look_, now + kRetryInterval);
  probe.done(now);
  if (pod.records_wait()) devices_.release(pod);  // a device that went may have closed its end
  // Others may have freed the missing resource.
  for (const Member member : pod.members()) requests_.refill(member);
}

bool Broker::probe_index(BrokerPod& pod, unsigned index, TimePoint now) {
  const PodMeter meter(pod.credits());
  PodProbe& probe = pod.probe();
  const std::string listener = settings_.socket_name + "-" + std::to_string(index);
  const auto connected = connect_to_sidecar(probe.socket(), listener, settings_.sidecar_uid);
  if (connected) {
    devices_.take_in(pod, index, instance_ | ++connections_made_, now);
    return true;
  }
  if (connected.error().code == Errc::kNotFound) {
    probe.nobody_listens(index);
    return false;
  }
  probe.avoid(index, now);
  if (connected.error().code != Errc::kPermission || !probe.stranger_listens(index)) return true;
  ++counts_.strangers;
  devices_.warn("listener_of_another_user", pod, listener);
  return true;
}

// An earlier event of the same turn may have closed the descriptor, or its number may be in use
// again. No call here blocks, so an unnecessary check is harmless.
void Broker::handle(int fd, std::uint32_t events, TimePoint now) {
  if (fd == watch_.descriptor()) return look();
  if (devices_.find(fd) == nullptr) return;
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    devices_.drop(fd);
    return;
  }
  BrokerPod& pod = book_.pod_of(fd);
  if ((events & EPOLLOUT) != 0) {
    devices_.release(pod);
    if (devices_.find(fd) == nullptr) return;
  }
  if (devices_.may_ask(pod, now)) serve(fd, now);
}

void Broker::serve(Member member, TimePoint now) {
  BrokerMember* const device = devices_.find(member);
  if (device == nullptr) return;
  BrokerPod& pod = book_.pod_of(member);
  if (pod.paused_until()) return;
  for (int i = 0; i < kRequestsPerTurn; ++i) {
    if (!devices_.may_ask(pod, now)) return;
    const auto request = device->requests().take();
    if (!request && request.error().code == Errc::kWouldBlock) {
      pod.credits().charge(-1);
      if (device->requests().take_wish())
        (void)devices_.send(member, {.kind = broker::Message::Kind::kRoom});
      return;
    }
    if (!request) {
      devices_.drop_hostile(member, request.error().what);
      return;
    }
    if (!requests_.apply(member, *request)) return;
  }
  unfinished_.insert(member);
}

}  // namespace fairlead::cni::node
