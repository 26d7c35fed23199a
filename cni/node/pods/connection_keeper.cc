#include "cni/node/pods/connection_keeper.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/linux/record_socket.h"
#include "cni/node/pods/sidecar_socket.h"
#include "cni/redirect/netns.h"

namespace fairlead::cni::node {
namespace {

using parking::KeeperSession;
using Refusal = parking::KeeperRecord::Refusal;
using Stage = KeeperSession::Stage;

constexpr const char* kLogger = "keeper";

TimePoint now_() { return std::chrono::steady_clock::now(); }

// RLIMIT_NOFILE, because the thread has its own table of descriptors.
std::uint32_t descriptors_max() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t free =
      limit.rlim_cur <= kPodThreadDescriptors ? 0 : limit.rlim_cur - kPodThreadDescriptors;
  return static_cast<std::uint32_t>(std::min<rlim_t>(free, kKeptDescriptorsOfPod));
}

}  // namespace

ConnectionKeeper::ConnectionKeeper(AgentPod pod, const PodThread::Here& here, KeeperNode& node)
    : pod_(std::move(pod)), node_(node), closer_([&here] { return here.stopped(); }) {}

// The pod or the agent has ended.
ConnectionKeeper::~ConnectionKeeper() {
  if (session_) --node_.counts.sidecars;
  if (session_) kept_ = session_->take_held();
  session_.reset();
  if (kept_) ++node_.counts.ended;
  held_ = 0;
  count();
}

pollfd ConnectionKeeper::waits_for() const {
  if (!session_) return {-1, 0, 0};
  const short events = session_->wants_to_write() ? POLLIN | POLLOUT : POLLIN;
  return {session_->descriptor(), events, 0};
}

TimePoint ConnectionKeeper::due() const {
  if (session_) return session_->has_more() ? TimePoint{} : stage_until_;
  return kept_ ? std::min(next_look_, kept_until_) : next_look_;
}

void ConnectionKeeper::act(TimePoint now) {
  if (session_) return advance(now);
  if (kept_ && now >= kept_until_) {
    note("expired", "no sidecar has come for the connections", LogLevel::kWarn);
    drop(node_.counts.expired);
  }
  if (now >= next_look_) look_for_sidecar(now);
}

Result<FileDescriptor> ConnectionKeeper::connect() const {
  FileDescriptor connection = SMC_TRY(make_socket_in(pod_.place, Hears::kEverything));
  keep_few_in_flight(connection.get());
  SMC_TRY(connect_to_sidecar(connection.get(), parking::kKeeperSocket, node_.sidecar_uid));
  return connection;
}

// The kernel reports the number of the process that called listen(2). By now it may be another
// process, of another pod.
bool ConnectionKeeper::is_process_of_pod(int pid) const {
  const std::string folder = "/proc/" + std::to_string(pid);
  const auto netns = Netns::open(folder + "/ns/net");
  // /proc/PID belongs to root if the process runs a program with rights that its user lacks, or one
  // that its user may not read.
  struct stat status {};
  return netns && netns->identity() == pod_.place.identity &&
         ::stat(folder.c_str(), &status) == 0 && status.st_uid == node_.sidecar_uid;
}

parking::KeeperTerms ConnectionKeeper::terms(int connection) {
  parking::KeeperTerms terms;
  terms.limits = {descriptors_max(), kKeptBytesOfPod};
  terms.reserve = [this](std::uint32_t descriptors) { return share_.resize(descriptors); };
  auto process =
      parking::PeerProcess::of(connection, [this](int pid) { return is_process_of_pod(pid); });
  if (process && process->may_fetch()) terms.process.emplace(std::move(*process));
  return terms;
}

void ConnectionKeeper::look_for_sidecar(TimePoint now) {
  next_look_ = now + (kept_ ? Duration(kKeeperLookWhileKeeping) : Duration(kKeeperLook));
  auto connection = connect();
  if (!connection) {
    if (connection.error().code == Errc::kPermission)
      note("refused", to_string(connection.error()), LogLevel::kWarn);
    return;  // no sidecar runs, or the sidecar parks nothing
  }
  parking::KeeperTerms terms_of_session = terms(connection->get());
  session_ = std::make_unique<KeeperSession>(std::move(*connection), std::move(terms_of_session),
                                             closer_, std::move(kept_));
  stage_ = Stage::kIdle;
  stage_until_ = TimePoint::max();
  ++node_.counts.sidecars;
  advance(now);
}

// Each new stage has its whole time.
void ConnectionKeeper::limit_time(TimePoint now) {
  const Stage stage = session_->stage();
  if (std::exchange(stage_, stage) == stage) return;
  switch (stage) {
    case Stage::kIdle:
      stage_until_ = TimePoint::max();
      return;
    case Stage::kGiving:
    case Stage::kReceiving:
      stage_until_ = now + kKeeperTransferTime;
      return;
    case Stage::kPromised:
      stage_until_ = now + kKeeperPromiseTime;
      return;
  }
}

void ConnectionKeeper::advance(TimePoint now) {
  for (;;) {
    auto event = session_->advance();
    if (!event) return end_session(now, event.error());
    limit_time(now);
    if (auto* const received = std::get_if<KeeperSession::Received>(&*event))
      return handle(std::move(*received), now);
    if (const auto* const answer = std::get_if<KeeperSession::Answered>(&*event)) {
      handle(*answer);
      continue;
    }
    count();
    if (now < stage_until_) return;
    return end_session(now, Error{Errc::kTimedOut, "the sidecar took too long"});
  }
}

void ConnectionKeeper::handle(KeeperSession::Answered answer) {
  held_ = 0;
  count();
  if (answer.refusal == Refusal::kNone) {
    ++node_.counts.given;
    note("given", "the next sidecar has the connections", LogLevel::kInfo);
  } else {
    ++node_.counts.refused;
    note("refused", parking::to_string(answer.refusal), LogLevel::kWarn);
  }
}

void ConnectionKeeper::handle(KeeperSession::Received received, TimePoint now) {
  session_.reset();
  --node_.counts.sidecars;
  ++node_.counts.taken;
  const std::size_t descriptors = received.parcel->descriptors.size();
  keep(std::move(received.parcel), now);
  note("kept", std::to_string(descriptors) + " descriptors", LogLevel::kInfo);
}

void ConnectionKeeper::keep(std::unique_ptr<parking::Parcel> parcel, TimePoint now) {
  held_ = parcel->descriptors.size() + 1;
  kept_ = std::move(parcel);
  kept_until_ = now + kKeepTime;
  next_look_ = now;
  count();
}

// The held parcel stays for the next sidecar.
void ConnectionKeeper::end_session(TimePoint now, const Error& why) {
  if (why.code != Errc::kPeerGone) note("refused", to_string(why), LogLevel::kWarn);
  if (stage_ == Stage::kReceiving || stage_ == Stage::kPromised) ++node_.counts.refused;
  kept_ = session_->take_held();
  session_.reset();
  --node_.counts.sidecars;
  next_look_ = kept_ ? now : now + kKeeperLook;
  count();
}

void ConnectionKeeper::drop(std::atomic<std::uint64_t>& dropped) {
  kept_.reset();
  held_ = 0;
  count();
  ++dropped;
}

// Returns descriptors that are not promised any more to the node's quota.
void ConnectionKeeper::count() {
  node_.counts.descriptors += held_;
  node_.counts.descriptors -= std::exchange(counted_, held_);
  const bool promised = session_ && (stage_ == Stage::kPromised || stage_ == Stage::kReceiving);
  if (!promised) (void)share_.resize(std::min<std::uint64_t>(held_, share_.size()));
}

void ConnectionKeeper::note(const char* event, const std::string& what, LogLevel level) {
  lines_.write(level, kLogger, event, now_(), [&](LogEvent& line) {
    line.field("pod", pod_.name).field("container", pod_.container).field("what", what);
  });
}

}  // namespace fairlead::cni::node
