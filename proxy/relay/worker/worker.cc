#include "relay/worker/worker.h"

#include <algorithm>

#include "base/assert.h"
#include "base/linux/descriptors.h"

namespace fairlead::relay {
namespace {

// Number of sessions that run before their messages are posted.
constexpr unsigned kSessionsPerFlush = 4;

// The maximum number of bytes that may wait for the application, as begin_frames() charges it.
std::size_t ahead_bytes(const ParkedMode& mode) {
  if (const auto* const tcp = std::get_if<ParkedTcp>(&mode))
    return tcp->towards_app.waiting.bytes.size();
  const auto* const frames = std::get_if<ParkedFrames>(&mode);
  if (frames == nullptr) return 0;
  const smc::Deferral::State& rules = frames->rules;
  if (!rules.windows) return smc::kFramedBytesMax + bytes_before_frames(*frames);
  const std::uint64_t passed = std::min(frames->to_app.written, rules.received_max);
  return std::max<std::size_t>(smc::kFirstWindowBytes, rules.received_max - passed) +
         frames->to_app.bytes.size();
}

}  // namespace

Worker::Worker(WorkerSettings settings, Network& network, WorkerStats& stats)
    : settings_(std::move(settings)),
      network_(network),
      budget_(settings_.memory_bytes, settings_.rings_max, stats),
      group_resources_{.budget = &budget_,
                       .timers = &timers_,
                       .stats = &stats,
                       .times = {settings_.config->smc.test_link_interval,
                                 settings_.config->smc.group_idle_timeout},
                       .slab_idle = settings_.config->buffers.idle_timeout,
                       .clock = &network},
      admission_(settings_.limits, budget_, stats, network, group_resources_.lines),
      devices_(*settings_.config, settings_.offer.peer_id, groups_, group_resources_, *this),
      groups_(group_resources_, settings_.index, settings_.seed),
      services_{*this,
                *settings_.config,
                settings_.offer,
                settings_.subnets,
                network,
                timers_,
                stats,
                group_resources_.lines,
                admission_,
                devices_,
                groups_,
                fallbacks_,
                decisions_,
                announcing_,
                settings_.destinations,
                tcp_resources_} {
  tcp_resources_.budget = &budget_;
}

Worker::~Worker() {
  // Sessions refer to groups, groups to devices.
  sessions_.clear();
  retired_.clear();
}

void Worker::accept(Direction direction, const SocketAddress& destination,
                    std::unique_ptr<event::Stream> stream, Arrival arrival) {
  if (!admission_.has_room(direction)) return refuse(*stream, Admission::Refusal::kConnections);
  // The other leg of the connection needs one more descriptor.
  if (descriptors_scarce_lately(stream->descriptor(), DescriptorUse::kNew))
    return refuse(*stream, Admission::Refusal::kDescriptors);
  std::optional<SocketMemory> memory;
  if (stream->descriptor() < 0 && !settings_.streams_count)
    memory.emplace();
  else
    memory = SocketMemory::begin(budget_, direction);
  const auto leg =
      direction == Direction::kOutbound ? SocketMemory::Leg::kApp : SocketMemory::Leg::kNet;
  if (!memory || !memory->bound(*stream, leg)) return refuse(*stream, Admission::Refusal::kMemory);
  const TimePoint now = network_.now();
  add_session(direction, destination, std::move(stream), std::move(*memory), now)
      .start(arrival, now);
}

Session& Worker::add_session(Direction direction, const SocketAddress& destination,
                             std::unique_ptr<event::Stream> accepted, SocketMemory memory,
                             TimePoint began) {
  const std::uint64_t number = (++numbers_ << 8) | settings_.index;
  auto session = std::make_unique<Session>(services_, number, direction, destination,
                                           std::move(accepted), std::move(memory), began);
  Session& added = *session;
  sessions_.emplace(number, std::move(session));
  admission_.connection_began(direction);
  return added;
}

void Worker::start_parking(TimePoint settled) {
  parking_.emplace(timers_, settled);
  admission_.start_parking();
  // Wakes all sessions: those over SMC-R begin to return to frames.
  for (const auto& [number, session] : sessions_) mark_ready(*session);
}

Worker::Parkable Worker::parkable() const {
  Parkable count;
  count.connections = sessions_.size();
  for (const auto& [number, session] : sessions_) {
    const Session::Parkable one = session->parkable();
    count.settled += one.settled ? 1U : 0U;
    count.live += one.live ? 1U : 0U;
  }
  return count;
}

// When the time is over, handshakes get a last chance to end in TCP.
bool Worker::settled() {
  const Parkable all = parkable();
  if (all.settled >= all.connections) return true;
  const TimePoint now = network_.now();
  if (now >= parking_->deadline) {
    if (!std::exchange(parking_->hurried, true)) {
      parking_->deadline = now + kHurriedWait;
      parking_->last = now + kHurriedWaitMax;
    } else if (negotiating_.empty() || now >= parking_->last) {
      return true;
    }
  }
  if (!parking_->hurried) return false;
  // Repeated in every turn: an awaited event may have come, and led to another wait.
  std::vector<Session*> sessions;  // one may end others
  for (const auto& [number, session] : sessions_) sessions.push_back(session.get());
  for (Session* session : sessions) session->hurry(now);
  // The next turn writes the sessions' Declines.
  parking_->timer.set(negotiating_.empty() ? parking_->deadline : now);
  return false;
}

std::optional<std::vector<ParkedConnection>> Worker::park_when_due() {
  if (!parking_ || !settled()) return std::nullopt;
  parking_.reset();
  const TimePoint now = network_.now();
  std::vector<Session*> sessions;
  for (const auto& [number, session] : sessions_) sessions.push_back(session.get());
  std::vector<ParkedConnection> parked;
  for (Session* session : sessions)
    if (std::optional<ParkedConnection> one = session->park(now)) parked.push_back(std::move(*one));
  retired_.clear();
  return parked;
}

bool Worker::take_back(ParkedConnection parked) {
  const TimePoint now = network_.now();
  const bool outbound = parked.direction == Direction::kOutbound;
  std::unique_ptr<event::Stream>& accepted = outbound ? parked.app : parked.net;
  std::optional<SocketMemory> memory;
  if (accepted->descriptor() < 0 && !settings_.streams_count)
    memory.emplace();
  else
    memory = SocketMemory::resume(budget_, ahead_bytes(parked.mode));
  const auto bounded = [&](const std::unique_ptr<event::Stream>& stream, SocketMemory::Leg leg) {
    return stream == nullptr || memory->bound(*stream, leg);
  };
  if (!admission_.has_room(parked.direction) || !memory ||
      !bounded(parked.app, SocketMemory::Leg::kApp) ||
      !bounded(parked.net, SocketMemory::Leg::kNet)) {
    for (event::Stream* const stream : {parked.app.get(), parked.net.get()})
      if (stream != nullptr) stream->reset_on_close();
    return false;
  }
  add_session(parked.direction, parked.destination, std::move(accepted), std::move(*memory),
              now - parked.age)
      .take_back(std::move(parked), now);
  return true;
}

void Worker::refuse(event::Stream& stream, Admission::Refusal why) {
  stream.reset_on_close();
  admission_.note_refusal(stream, why);
}

void Worker::mark_ready(Session& session) {
  if (session.queued || session.dead()) return;
  session.queued = true;
  (session.negotiating() ? negotiating_ : relaying_).push_back(&session);
}

void Worker::retire(Session& session) {
  const auto found = sessions_.find(session.number());
  SMC_ASSERT(found != sessions_.end(), session.number());
  // A session may have become ready in the turn in which it ends; it does not live until the next
  // turn.
  if (session.queued && std::erase(negotiating_, &session) == 0) std::erase(relaying_, &session);
  active_.remove(session);
  admission_.connection_ended(session.direction());
  retired_.push_back(std::move(found->second));
  sessions_.erase(found);
}

void Worker::grant_permit(std::uint64_t session) {
  const auto found = sessions_.find(session);
  SMC_ASSERT(found != sessions_.end(), session);
  found->second->handle(PermitGranted{}, network_.now());
}

void Worker::devices_changed() {
  if (settings_.destinations != nullptr) settings_.destinations->forget_all();
}

bool Worker::uses(const DeviceSlot& slot) const {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [&](const auto& entry) { return entry.second->uses(slot); });
}

bool Worker::turn() {
  const TimePoint now = network_.now();
  services_.stats.loop_turns.add();
  const bool more = devices_.poll(now);
  timers_.run(now);
  run(negotiating_);
  if (!relaying_.empty()) active_.turn_began();
  run(relaying_);
  // Events may make sessions ready, and sessions may cause events. What comes after this point
  // waits for the next turn.
  groups_.handle_events();
  flush();
  groups_.destroy_closed();
  retired_.clear();
  return more || !negotiating_.empty() || !relaying_.empty() || groups_.events_pending();
}

bool Worker::single_active() const {
  const Session* const single = active_.single();
  return single != nullptr && single->smc() != nullptr;
}

bool Worker::try_read() { return active_.single()->try_read(); }

void Worker::flush() {
  if (groups_.flush(network_.now())) devices_.ring_doorbells();
}

void Worker::run(std::deque<Session*>& ready) {
  TimePoint now = network_.now();
  const TimePoint deadline = now + settings_.turn_max;
  unsigned since_flush = 0;
  // Sessions that become ready meanwhile wait for the next turn.
  for (std::size_t left = ready.size(); left != 0 && !ready.empty(); --left) {
    Session& session = *ready.front();
    ready.pop_front();
    session.queued = false;
    ++session.runs;
    if (!session.negotiating()) active_.add(session);
    session.handle(Ready{}, now);
    // The peer can process the first messages while this side still reads the next ones. Otherwise
    // many small requests move as one convoy, and one side always waits for the other.
    if (++since_flush % kSessionsPerFlush == 0) flush();
    now = network_.now();
    if (now >= deadline) break;
  }
}

void Worker::shut_down(const char* why) {
  std::vector<Session*> left;
  for (const auto& [number, session] : sessions_) left.push_back(session.get());
  for (Session* session : left) session->shut_down(why);
  groups_.terminate_all(why);
  devices_.ring_doorbells();
}

WorkerSnapshot Worker::snapshot(const SnapshotRequest& request) {
  const TimePoint now = network_.now();
  WorkerSnapshot snapshot;
  snapshot.worker = settings_.index;
  for (const auto& [number, session] : sessions_) {
    if (snapshot.connections.size() >= request.connections_max) break;
    snapshot.connections.push_back(session->row(now));
    snapshot.connections.back().worker = settings_.index;
  }
  snapshot.link_groups = groups_.rows(now);
  snapshot.devices = devices_.rows();
  if (request.decisions) snapshot.decisions = decisions_.rows();
  return snapshot;
}

}  // namespace fairlead::relay
