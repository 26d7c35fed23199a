#include "cni/node/connection_keeper.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "cni/node/sidecar_socket.h"

namespace fairlead::cni::node {
namespace {

using State = parking::KeeperSession::State;

constexpr const char* kLogger = "keeper";

TimePoint now_() { return std::chrono::steady_clock::now(); }

}  // namespace

ConnectionKeeper::ConnectionKeeper(PodWatch watch, std::uint32_t sidecar_uid,
                                   FileDescriptor stop_event)
    : watch_(std::move(watch)), sidecar_uid_(sidecar_uid), stop_event_(std::move(stop_event)) {}

Outcome<std::unique_ptr<ConnectionKeeper>> ConnectionKeeper::create(const std::string& run_dir,
                                                                    std::uint32_t sidecar_uid) {
  auto watch = PodWatch::open(run_dir);
  if (!watch) return tl::unexpected(watch.error());
  FileDescriptor stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return fail(Code::kState, to_string(system_error("eventfd", errno)));
  return std::unique_ptr<ConnectionKeeper>(
      new ConnectionKeeper(std::move(*watch), sidecar_uid, std::move(stop)));
}

void ConnectionKeeper::stop() {
  const std::uint64_t one = 1;
  (void)!::write(stop_event_.get(), &one, sizeof one);
}

void ConnectionKeeper::run() {
  look_at_pods();
  while (!stopped_) {
    const TimePoint now = now_();
    for (auto& [name, pod] : pods_) {
      if (!pod.session && pod.next_look <= now)
        look_for_sidecar(name, pod, now);
      else if (pod.session &&
               (std::exchange(pod.ready, false) || is_late(pod, now) || has_rested(pod, now)))
        advance(name, pod, now);
      if (pod.kept && now - pod.kept_since >= kKeepTime) {
        note("expired", name, "no sidecar has come for the connections", LogLevel::kWarn);
        drop(pod, counts_.expired);
      }
    }
    wait(now);
  }
}

bool ConnectionKeeper::is_late(const Pod& pod, TimePoint now) {
  const State state = pod.session->state();
  return (state == State::kGiving || state == State::kReceiving) && now >= pod.transfer_until;
}

bool ConnectionKeeper::has_rested(const Pod& pod, TimePoint now) {
  const auto rests = pod.session->rests();
  return rests && *rests <= now;
}

void ConnectionKeeper::look_at_pods() {
  const WatchedPods& seen = watch_.look();
  for (auto at = pods_.begin(); at != pods_.end();) {
    Pod& pod = at->second;
    const auto still = seen.find(at->first);
    if (still != seen.end() && still->second == pod.pod) {
      ++at;
      continue;
    }
    if (pod.session) end_session(pod, now_());
    if (pod.kept) drop(pod, counts_.ended);
    at = pods_.erase(at);
  }
  for (const auto& [name, pod] : seen) pods_.try_emplace(name).first->second.pod = pod;
}

std::uint32_t ConnectionKeeper::room() const {
  const std::uint64_t used = counts_.descriptors;
  const std::uint64_t left = used >= kKeptDescriptorsOfNode ? 0 : kKeptDescriptorsOfNode - used;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(left, kKeptDescriptorsOfPod));
}

Result<FileDescriptor> ConnectionKeeper::connect_to(const Pod& pod) const {
  FileDescriptor connection = SMC_TRY(make_socket_in(pod.pod, Hears::kRecords));
  SMC_TRY(connect_to_sidecar(connection.get(), parking::kKeeperSocket, sidecar_uid_));
  return connection;
}

void ConnectionKeeper::look_for_sidecar(const std::string& name, Pod& pod, TimePoint now) {
  pod.next_look = now + (pod.kept ? Duration(kKeeperLookWhileKeeping) : Duration(kKeeperLook));
  auto connection = connect_to(pod);
  if (!connection) {
    if (connection.error().code == Errc::kPermission)
      note("refused", name, to_string(connection.error()), LogLevel::kWarn);
    return;  // no sidecar runs, or it parks nothing
  }
  pod.session = std::make_unique<parking::KeeperSession>(
      std::move(*connection), parking::ParcelLimits{room(), kKeptBytesOfPod}, closer_,
      std::move(pod.kept));
  pod.transfer_until = now + kKeeperTransferTime;
  ++counts_.sidecars;
  advance(name, pod, now);
}

void ConnectionKeeper::advance(const std::string& name, Pod& pod, TimePoint now) {
  const State before = pod.session->state();
  // A parcel replaces the copies of a living sidecar.
  const std::uint32_t room_of_pod =
      std::min(pod.session->living_descriptors() + room(), kKeptDescriptorsOfPod);
  pod.session->set_limits({room_of_pod, kKeptBytesOfPod},
                          std::min(room_of_pod, kLivingDescriptorsOfPod));
  pod.session->rest_until(pod.rests_until);
  const Result<void> advanced = pod.session->advance();
  count_living(pod);
  const State after = pod.session->state();
  if (before != after && (after == State::kReceiving || after == State::kGiving))
    pod.transfer_until = now + kKeeperTransferTime;
  if (const auto answer = pod.session->take_answer()) {
    const bool given = *answer == parking::KeeperRecord::Refusal::kNone;
    count_kept(pod, 0);
    ++(given ? counts_.given : counts_.refused);
    pod.rests_until = now + kKeeperRest;
    if (given)
      note("given", name, "the next sidecar has the connections", LogLevel::kInfo);
    else
      note("refused", name, parking::to_string(*answer), LogLevel::kWarn);
  }
  if (after == State::kReceived) return keep(name, pod, now);
  if (advanced && !is_late(pod, now)) return;
  if (advanced)
    note("refused", name, "the sidecar took too long", LogLevel::kWarn);
  else if (advanced.error().code != Errc::kPeerGone)
    note("refused", name, to_string(advanced.error()), LogLevel::kWarn);
  if (after == State::kReceiving) ++counts_.refused;
  const bool died = !advanced && advanced.error().code == Errc::kPeerGone;
  auto remains = died ? pod.session->take_remains(now, remains_room()) : std::nullopt;
  end_session(pod, now);
  if (remains) keep_remains(name, pod, std::move(*remains), now);
}

void ConnectionKeeper::count_living(Pod& pod) {
  const std::uint32_t living = pod.session ? pod.session->living_descriptors() : 0;
  counts_.descriptors += living;
  counts_.descriptors -= std::exchange(pod.living_descriptors, living);
}

// What was kept before, and is replaced or gone, does not count any more.
void ConnectionKeeper::count_kept(Pod& pod, std::size_t kept) {
  counts_.descriptors += kept;
  counts_.descriptors -= std::exchange(pod.kept_descriptors, kept);
}

// Of descriptions that this process makes, and pays for.
std::uint64_t ConnectionKeeper::remains_room() const {
  std::uint64_t used = 0;
  for (const auto& [name, pod] : pods_)
    if (pod.kept && pod.kept->death) used += pod.kept->bytes;
  const std::uint64_t left = used >= kRemainsBytesOfNode ? 0 : kRemainsBytesOfNode - used;
  return std::min(left, kRemainsBytesOfPod);
}

// The proxy has died with its connections at rest and others.
void ConnectionKeeper::keep_remains(const std::string& name, Pod& pod,
                                    parking::LivingConnections::Remains remains, TimePoint now) {
  // One that ends again and again.
  if (!remains.parcel) pod.next_look = now + kKeeperLook;
  if (!remains.died) return;
  ++counts_.died;
  counts_.reset += remains.reset;
  const std::size_t kept = remains.parcel ? remains.parcel->descriptors.size() : 0;
  note("died", name,
       std::to_string(remains.reset) + " connections were reset, " + std::to_string(kept) +
           " descriptors of listeners and of connections at rest are kept",
       LogLevel::kWarn);
  if (!remains.parcel) return;
  pod.kept = std::move(remains.parcel);
  pod.kept_since = now;
  count_kept(pod, kept + 1);
}

void ConnectionKeeper::keep(const std::string& name, Pod& pod, TimePoint now) {
  pod.kept_since = now;
  end_session(pod, now);
  count_kept(pod, pod.kept->descriptors.size() + 1);
  ++counts_.taken;
  note("kept", name, std::to_string(pod.kept->descriptors.size()) + " descriptors",
       LogLevel::kInfo);
}

// What is kept stays for the next sidecar.
void ConnectionKeeper::end_session(Pod& pod, TimePoint now) {
  pod.kept = pod.session->take_parcel();
  pod.session.reset();
  count_living(pod);
  --counts_.sidecars;
  pod.next_look = now;
}

void ConnectionKeeper::drop(Pod& pod, std::atomic<std::uint64_t>& count) {
  pod.kept.reset();
  count_kept(pod, 0);
  ++count;
}

void ConnectionKeeper::wait(TimePoint now) {
  std::vector<pollfd> waiting = {{stop_event_.get(), POLLIN, 0}, {watch_.descriptor(), POLLIN, 0}};
  std::vector<Pod*> whose;
  TimePoint next = now + kKeeperLook;
  for (auto& [name, pod] : pods_) {
    if (!pod.session) {
      next = std::min(next, pod.next_look);
    } else if (const auto rests = pod.session->rests()) {
      next = std::min(next, *rests);
    } else if (!closer_.full()) {  // else it is looked at again soon
      const short events = pod.session->wants_to_write() ? POLLIN | POLLOUT : POLLIN;
      waiting.push_back({pod.session->descriptor(), events, 0});
      whose.push_back(&pod);
    }
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now_()).count();
  (void)::poll(waiting.data(), waiting.size(), static_cast<int>(std::max<std::int64_t>(left, 1)));
  stopped_ = waiting[0].revents != 0;
  for (std::size_t i = 0; i < whose.size(); ++i) whose[i]->ready = waiting[2 + i].revents != 0;
  if (waiting[1].revents != 0) look_at_pods();
}

void ConnectionKeeper::note(const char* event, const std::string& pod, const std::string& what,
                            LogLevel level) {
  lines_.write(level, kLogger, event, now_(),
               [&](LogEvent& line) { line.field("pod", pod).field("what", what); });
}

}  // namespace fairlead::cni::node
