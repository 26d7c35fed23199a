#include "relay/worker.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "smc/cursor.h"

namespace fairlead::relay {
namespace {

// Sessions that may wait for one first contact; more would time out before their turn.
constexpr std::size_t kWaitersMax = 1024;
// Sessions run before what they have to send is sent.
constexpr unsigned kSessionsPerFlush = 4;

smc::GroupTimes times_of(const config::Smc& smc) {
  return {smc.test_link_interval, smc.group_idle_timeout};
}

}  // namespace

Worker::Worker(WorkerSettings settings, Network& network, WorkerStats& stats)
    : settings_(std::move(settings)),
      network_(network),
      stats_(stats),
      sizes_{smc::element_code(settings_.config->buffers.size),
             smc::element_code(settings_.config->buffers.size_min)},
      budget_(settings_.memory_bytes, settings_.rings_max, stats),
      random_(settings_.seed),
      turns_(settings_.handshakes_per_peer_max) {
  group_resources_.budget = &budget_;
  tcp_resources_.budget = &budget_;
  group_resources_.timers = &timers_;
  group_resources_.stats = &stats_;
  group_resources_.times = times_of(config().smc);
  group_resources_.slab_idle = config().buffers.idle_timeout;
  group_resources_.clock = &network_;
}

BufferSizes Worker::buffer_sizes(const rdma::Device& device) const {
  BufferSizes sizes = sizes_;
  if (!device.capabilities().remote_memory_addressable && sizes.wanted_code > sizes.least_code)
    --sizes.wanted_code;
  return sizes;
}

Worker::~Worker() {
  // Sessions refer to groups, groups to devices.
  negotiating_.clear();
  relaying_.clear();
  sessions_.clear();
  graveyard_.clear();
}

Result<void> Worker::add_device(std::unique_ptr<rdma::Device> device,
                                std::unique_ptr<Reachability> reachability) {
  const bool farther = reachability->leaves_node();
  std::unique_ptr<DeviceSlot> slot = SMC_TRY(
      DeviceSlot::create(std::move(device), std::move(reachability), peers_, stats_, budget_));
  if (watcher_ != nullptr) SMC_TRY(slot->device().set_watcher(watcher_));
  const auto place = std::find_if(slots_.begin(), slots_.end(), [&](const auto& other) {
    return !farther && other->reachability().leaves_node();
  });
  LinkDevice& added = (*slots_.insert(place, std::move(slot)))->link_device();
  list_devices();
  // Groups that are there may have waited for it.
  for (const rdma::Port& port : added.device->ports())
    peers_.for_each([&](Group& group) {
      group.handle_port(added, port.number, Group::PortChange::kUp, network_.now());
    });
  return {};
}

void Worker::list_devices() {
  group_resources_.devices.clear();
  for (const std::unique_ptr<DeviceSlot>& slot : slots_)
    group_resources_.devices.push_back(&slot->link_device());
}

DeviceSlot* Worker::slot_of_server(const Gid& gid, DeviceSlot* offered) const {
  if (offered != nullptr && offered->active() && offered->reachability().server_reachable(gid))
    return offered;
  for (const std::unique_ptr<DeviceSlot>& slot : slots_)
    if (slot->active() && slot->reachability().server_reachable(gid)) return slot.get();
  return nullptr;
}

void Worker::accept(Direction direction, const SocketAddress& destination,
                    std::unique_ptr<event::Stream> stream, Arrival arrival) {
  const bool inbound = direction == Direction::kInbound;
  if (sessions_.size() >= settings_.connections_max ||
      (inbound && inbound_count_ + settings_.kept_for_outbound >= settings_.connections_max))
    return refuse(*stream, Refusal::kConnections);
  // The other side of the connection needs one more.
  if (descriptors_scarce_lately(stream->descriptor(), DescriptorUse::kNew))
    return refuse(*stream, Refusal::kDescriptors);
  std::optional<SocketMemory> memory;
  if (stream->descriptor() < 0 && !settings_.streams_count)
    memory.emplace();
  else
    memory = SocketMemory::begin(budget_, direction);
  const auto bounded = [&] {
    return direction == Direction::kOutbound ? memory->bound_application(*stream)
                                             : memory->bound_network(*stream);
  };
  if (!memory || !bounded()) return refuse(*stream, Refusal::kMemory);
  const TimePoint now = network_.now();
  const std::uint64_t number = (++numbers_.sessions << 8) | settings_.index;
  auto session = std::make_unique<Session>(*this, number, direction, destination, std::move(stream),
                                           std::move(*memory), now);
  Session& started = *session;
  sessions_.emplace(number, std::move(session));
  inbound_count_ += inbound ? 1U : 0U;
  started.start(arrival, now);
}

void Worker::refuse(event::Stream& stream, Refusal why) {
  stream.reset_on_close();
  note_refusal(stream, why);
}

void Worker::note_refusal(const event::Stream& accepted, Refusal why) {
  struct Text {
    const char* reason;
    const char* hint;
  };
  static constexpr std::array<Text, kRefusals> kTexts = {{
      {"connection_limit", "raise limits.connections"},
      {"memory", "raise memory.limit"},
      {"descriptors", "raise the descriptor limit (nofile), or lower limits.connections"},
  }};
  stats_.refused_of(RefusedFor::kLimit).add();
  if (why == Refusal::kMemory) stats_.refused_memory.add();
  if (why == Refusal::kDescriptors) stats_.refused_descriptors.add();
  const auto index = static_cast<std::size_t>(why);
  if (refused_[index]++ % kRefusalsPerLine != 0) return;
  lines().write(LogLevel::kWarn, "relay.worker", "refused", network_.now(), [&](LogEvent& line) {
    line.field("reason", kTexts[index].reason)
        .field("connections", std::uint64_t{sessions_.size()});
    if (why == Refusal::kMemory)
      line.field("memory_left_bytes", std::uint64_t{budget_.left_bytes()});
    line.field("peer", to_string(accepted.peer_address())).field("hint", kTexts[index].hint);
  });
}

void Worker::mark_ready(Session& session) {
  if (session.queued || session.phase() == Session::Phase::kDead) return;
  session.queued = true;
  (session.negotiating() ? negotiating_ : relaying_).push_back(&session);
}

void Worker::bury(Session& session) {
  const auto found = sessions_.find(session.number());
  SMC_ASSERT(found != sessions_.end(), session.number());
  // It may have been made ready in the very turn in which it dies, and does not live to the next.
  if (session.queued && std::erase(negotiating_, &session) == 0) std::erase(relaying_, &session);
  std::erase(active_, &session);
  inbound_count_ -= session.outbound() ? 0U : 1U;
  graveyard_.push_back(std::move(found->second));
  sessions_.erase(found);
}

bool Worker::begin_handshake(const std::optional<SocketAddress>& client) {
  if (handshakes_ >= settings_.handshakes_max) return false;
  if (client) {
    if (handshakes_of_.count(*client) >= settings_.handshakes_max - handshakes_) return false;
    handshakes_of_.add(*client);
  }
  ++handshakes_;
  return true;
}

void Worker::end_handshake(const std::optional<SocketAddress>& client) {
  --handshakes_;
  if (client) handshakes_of_.remove(*client);
}

void Worker::next_turn(std::uint64_t session) {
  const auto found = sessions_.find(session);
  SMC_ASSERT(found != sessions_.end(), session);
  found->second->handle_turn();
}

std::string Worker::next_group_id() {
  return "g-" + std::to_string(settings_.index) + "." + std::to_string(++numbers_.groups);
}

Group& Worker::adopt_group(const PeerKey& key, const SocketAddress& address,
                           std::unique_ptr<Group> group) {
  Group& added = peers_.add(key, address, std::move(group));
  stats_.link_added.add();
  lines().write(LogLevel::kInfo, "smc.group", "forming", network_.now(), [&](LogEvent& line) {
    line.field("group", added.id())
        .field("role", key.role == smc::GroupRole::kServer ? "server" : "client")
        .field("peer_id", to_string(key.peer));
  });
  return added;
}

bool Worker::wait_for_group(Group& group, ConnectionOwner& owner) {
  if (waiting_.size() >= kWaitersMax) return false;
  waiting_.emplace(&group, &owner);
  return true;
}

void Worker::stop_waiting(const ConnectionOwner& owner) {
  if (waiting_.empty()) return;
  std::erase_if(waiting_, [&](const auto& entry) { return entry.second == &owner; });
}

bool Worker::turn() {
  const TimePoint now = network_.now();
  bool more = false;
  stats_.loop_turns.add();
  for (const std::unique_ptr<DeviceSlot>& slot : slots_) more = slot->poll(now) || more;
  timers_.run(now);
  run(negotiating_);
  if (!relaying_.empty() && ++relaying_turns_ % kActiveTurns == 0) active_.clear();
  run(relaying_);
  // Events may make sessions ready and sessions cause events; what comes late waits for the next
  // turn.
  std::vector<Group*> changed;
  changed.swap(group_resources_.changed);
  for (Group* group : changed) handle_group_events(*group);
  flush();
  reap_groups();
  graveyard_.clear();
  return more || !negotiating_.empty() || !relaying_.empty() || !group_resources_.changed.empty();
}

void Worker::note_active(Session& session) {
  if (many_active()) return;
  if (std::find(active_.begin(), active_.end(), &session) != active_.end()) return;
  active_.push_back(&session);
}

bool Worker::single_active() const {
  return active_.size() == 1 && active_.front()->smc() != nullptr;
}

bool Worker::look() { return active_.front()->look(); }

void Worker::flush() {
  const TimePoint now = network_.now();
  bool any = false;
  peers_.for_each([&](Group& group) {
    if (!group.sender().pending()) return;
    group.sender().flush(now);
    any = true;
  });
  if (!any) return;
  for (const std::unique_ptr<DeviceSlot>& slot : slots_) slot->device().ring_doorbells();
}

void Worker::run(std::deque<Session*>& ready) {
  TimePoint now = network_.now();
  const TimePoint deadline = now + settings_.turn_max;
  unsigned since_flush = 0;
  // Who becomes ready meanwhile waits for the next turn.
  for (std::size_t left = ready.size(); left != 0 && !ready.empty(); --left) {
    Session& session = *ready.front();
    ready.pop_front();
    session.queued = false;
    if (!session.negotiating()) note_active(session);
    session.run(now);
    // The peer begins with the first messages while we still read the next: without this, many
    // small requests move as one convoy and one side always waits for the other.
    if (++since_flush % kSessionsPerFlush == 0) flush();
    now = network_.now();
    if (now >= deadline) break;
  }
}

void Worker::shut_down(const char* why) {
  std::vector<Session*> left;
  for (const auto& [number, session] : sessions_) left.push_back(session.get());
  for (Session* session : left) session->shut_down(why);
  const TimePoint now = network_.now();
  peers_.for_each([&](Group& group) {
    if (!group.protocol().terminated()) group.terminate(why);
    group.sender().flush(now);
  });
  for (const std::unique_ptr<DeviceSlot>& slot : slots_) slot->device().ring_doorbells();
}

bool Worker::shut_down_done() const { return peers_.count() == 0; }

}  // namespace fairlead::relay
