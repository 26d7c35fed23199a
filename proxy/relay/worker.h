// One worker: everything that one thread owns, driven in turns. It knows streams, deadlines and
// devices, but neither sockets nor threads. Network gives it streams and the time;
// worker_thread.h gives it loop and thread, a simulation gives it others.
//
// A turn takes in what has arrived from the devices, runs what is due, moves the bytes of the
// sessions that are ready, and sends what has become due to be sent: one doorbell a peer and turn.
// It is short however many are ready: streams that never end must not keep a newcomer from its
// handshake, whose peer waits under a deadline.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/paced_lines.h"
#include "base/snapshot.h"
#include "base/stats.h"
#include "config/config.h"
#include "event/timer_queue.h"
#include "relay/address_shares.h"
#include "relay/connection_owner.h"
#include "relay/decision_log.h"
#include "relay/device_slot.h"
#include "relay/fallback_log.h"
#include "relay/handshake_turns.h"
#include "relay/memory_budget.h"
#include "relay/network.h"
#include "relay/session.h"
#include "smc/negotiate.h"

namespace fairlead::relay {

// Refusals at a limit are logged one in so many.
inline constexpr std::uint64_t kRefusalsPerLine = 1000;

// How long the sessions of one kind, those that negotiate and those that relay, may run in a turn.
inline constexpr Duration kTurnMax = std::chrono::milliseconds(1);

// More active sessions than this are many: both ends have work beside any one of them.
inline constexpr std::size_t kFewActiveMax = 2;
// A session is active if it moved bytes within the latest turns of this number that moved any.
inline constexpr std::uint64_t kActiveTurns = 64;

struct WorkerSettings {
  unsigned index = 0;
  unsigned workers = 1;
  const config::Config* config = nullptr;  // outlives the worker
  smc::LocalOffer offer;
  // Of the interface with a local address, nothing if no interface has it.
  std::function<std::optional<smc::Subnets>(const SocketAddress& local)> subnets =
      [](const SocketAddress&) { return std::nullopt; };
  std::size_t connections_max = 0;  // this worker's share of limits.connections
  // Of these, what inbound connections leave free. Anyone with a route to the pod may open them,
  // and the application shall still reach others.
  std::size_t kept_for_outbound = 0;
  std::size_t handshakes_max = 0;
  std::size_t handshakes_per_peer_max = 1;  // not 0
  std::size_t memory_bytes = 0;             // of memory.limit
  std::size_t rings_max = 0;                // of that, for rings; 0: as relay/memory_budget.h says
  bool streams_count = false;               // in it, those without descriptor too
  std::uint64_t seed = 0;                   // for tokens
  Duration turn_max = kTurnMax;             // 0: one session of each kind a turn
};

class Worker {
 public:
  Worker(WorkerSettings settings, Network& network, WorkerStats& stats);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Where two lead to a peer, one that does not leave the node is preferred, then the earlier one.
  Result<void> add_device(std::unique_ptr<rdma::Device> device,
                          std::unique_ptr<Reachability> reachability);
  // Why there is no device; for the decisions that follow from it.
  void set_no_device_reason(FallbackReason reason) { no_device_ = reason; }
  // Of all devices, now and later; outlives them.
  void set_device_watcher(FdWatcher* watcher);
  // Called now and every `interval`: looks for devices that have come or gone. One for each kind.
  void look_for_devices(std::function<void(Worker&)> look, Duration interval);
  // Destroys a device that is gone for good. False while link groups or handshakes use it.
  bool remove_device(const std::string& name);
  // An operator takes a port out of use, or back. False where that cannot be done.
  bool take_port(const std::string& device, PortNumber port, rdma::PortState state);
  // Devices of one kind that are there, but cannot be used; for people.
  void set_unusable_devices(const std::string& kind, std::vector<DeviceRow> rows) {
    unusable_devices_[kind] = std::move(rows);
  }

  // A connection has been accepted for this destination.
  void accept(Direction direction, const SocketAddress& destination,
              std::unique_ptr<event::Stream> stream, Arrival arrival = Arrival::kAtListener);

  // True when new connections with applications should agree on small TCP segments.
  bool memory_short() const { return SocketMemory::is_short(budget_); }

  // True when there is more to do at once.
  bool turn();
  // True if exactly one session is active, and over SMC-R. Between turns, a spinning thread then
  // calls look() instead of asking the event loop. With two sessions only the loop keeps the order
  // in which their bytes came: a look at one stream and then at the other may find the later bytes.
  bool single_active() const;
  bool many_active() const { return active_.size() > kFewActiveMax; }
  // Requires single_active(). Tries to read that session's stream; true if a turn is due.
  bool look();
  std::optional<TimePoint> next_deadline() const { return timers_.next_deadline(); }

  // No more SMC for new connections; what runs goes on.
  void start_drain() { draining_ = true; }
  bool draining() const { return draining_; }
  std::size_t session_count() const { return sessions_.size(); }
  // Resets what is left and tells every peer that its groups are gone. To be followed by turns
  // until shut_down_done().
  void shut_down(const char* why);
  // True when all peers have taken what shut_down() had to say and have answered, or were given up.
  bool shut_down_done() const;

  WorkerSnapshot snapshot(const SnapshotRequest& request);
  WorkerStats& stats() { return stats_; }

  // For Session.
  const config::Config& config() const { return *settings_.config; }
  const WorkerSettings& settings() const { return settings_; }
  // Of each ring of a connection on that device. Where the peer's memory is not addressable, a
  // direction has two, one at each end: each has half the size, and what a peer costs stays the
  // same.
  BufferSizes buffer_sizes(const rdma::Device& device) const;
  Network& network() { return network_; }
  event::TimerQueue& timers() { return timers_; }
  TcpRelayResources& tcp_resources() { return tcp_resources_; }
  FallbackLog& fallback_log() { return fallback_log_; }
  DecisionLog& decisions() { return decisions_; }
  std::vector<std::unique_ptr<DeviceSlot>>& slots() { return slots_; }
  PeerTable& peers() { return peers_; }
  GroupResources& group_resources() { return group_resources_; }
  // Why other nodes cannot be reached.
  FallbackReason no_device_reason() const;
  bool any_active_slot() const;
  // What a Proposal says: the port of a device that leaves the node, where there is one, and the
  // fabric of the one that does not.
  struct Offered {
    DeviceSlot* slot = nullptr;
    rdma::Port port;
    wire::VendorArea vendor;
    bool withheld = false;  // a device was left out: the path there is encrypted
  };
  Offered offer_towards(const Place& place) const;
  // The device that reaches the GID of an Accept: the offered one, if it does.
  DeviceSlot* slot_of_server(const Gid& gid, DeviceSlot* offered) const;
  enum class Refusal : std::uint8_t { kConnections, kMemory, kDescriptors };
  static constexpr std::size_t kRefusals = 3;
  // Counts a connection that is reset for want of something, and says so now and then.
  void note_refusal(const event::Stream& accepted, Refusal why);
  // For lines that applications and peers can cause.
  PacedLines& lines() { return group_resources_.lines; }
  void mark_ready(Session& session);
  void bury(Session& session);
  // False: limits.handshakes is reached, or the client at this address (of IPv6: in this /64) has
  // in hand as many as are free, so that those of others always find some.
  bool begin_handshake(const std::optional<SocketAddress>& client = std::nullopt);
  void end_handshake(const std::optional<SocketAddress>& client);
  HandshakeTurns& turns() { return turns_; }
  // Its turn has come.
  void next_turn(std::uint64_t session);
  std::uint32_t random() { return static_cast<std::uint32_t>(random_()); }
  std::string next_group_id();
  // `address`: of the peer's TCP connection, without port.
  Group& adopt_group(const PeerKey& key, const SocketAddress& address,
                     std::unique_ptr<Group> group);
  // The owner waits until `group` is confirmed or lost. False when too many do.
  bool wait_for_group(Group& group, ConnectionOwner& owner);
  void stop_waiting(const ConnectionOwner& owner);

 private:
  void handle_group_events(Group& group);
  void group_terminated(Group& group, const char* why);
  void list_devices();
  // To those that wait for it.
  void tell_told(Group& group);
  // Those with a connection in the group, and those that wait for it; these wait no longer.
  std::vector<ConnectionOwner*> owners_of(Group& group);
  void reap_groups();
  void run(std::deque<Session*>& ready);
  void note_active(Session& session);
  void flush();
  void refuse(event::Stream& stream, Refusal why);
  DeviceRow device_row(DeviceSlot& slot, const rdma::Port& port) const;

  WorkerSettings settings_;
  Network& network_;
  WorkerStats& stats_;
  BufferSizes sizes_;
  MemoryBudget budget_;
  event::TimerQueue timers_;
  TcpRelayResources tcp_resources_;
  FallbackLog fallback_log_;
  DecisionLog decisions_;
  std::mt19937_64 random_;
  FallbackReason no_device_ = FallbackReason::kNoRdmaDevice;
  std::map<std::string, std::vector<DeviceRow>> unusable_devices_;  // by kind
  FdWatcher* watcher_ = nullptr;
  struct Looker {
    std::function<void(Worker&)> look;
    Duration interval{};
    std::optional<event::Timer> timer;
  };
  std::vector<std::unique_ptr<Looker>> lookers_;
  std::vector<std::unique_ptr<DeviceSlot>> slots_;
  GroupResources group_resources_;
  PeerTable peers_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Session>> sessions_;
  std::size_t inbound_count_ = 0;  // of sessions_
  // Ready to run, in this order; by what they did when they became it.
  std::deque<Session*> negotiating_;
  std::deque<Session*> relaying_;
  // At most kFewActiveMax + 1, which stand for many.
  std::vector<Session*> active_;
  std::uint64_t relaying_turns_ = 0;
  std::vector<std::unique_ptr<Session>> graveyard_;
  std::unordered_multimap<Group*, ConnectionOwner*> waiting_;
  struct ClosingGroup {
    Group* group;
    TimePoint until;
  };
  std::vector<ClosingGroup> closing_;
  std::optional<event::Timer> closing_timer_;
  struct {
    std::uint64_t sessions = 0, groups = 0;
  } numbers_;  // the latest that were given
  std::size_t handshakes_ = 0;
  AddressShares handshakes_of_;                     // clients, of inbound ones
  std::array<std::uint64_t, kRefusals> refused_{};  // by Refusal
  HandshakeTurns turns_;
  bool draining_ = false;
};

}  // namespace fairlead::relay
