// One worker: everything that one thread owns, driven in turns. It knows streams, deadlines and
// devices, but neither sockets nor threads. Network gives it streams and the time. worker_thread.h
// adds event loop and thread; a simulation has its own.
//
// A turn processes what has arrived from the devices, runs what is due, moves the bytes of ready
// sessions, and sends what has become due, with one doorbell per peer and turn. It is short however
// many sessions are ready: endless streams must not keep a new connection from its handshake, whose
// peer waits under a deadline.
//
// Apart from its sessions, a worker consists of parts: the admission of connections and handshakes
// (Admission), devices (DeviceRegistry), link groups (LinkGroupRegistry).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/snapshot.h"
#include "base/stats.h"
#include "config/config.h"
#include "event/timer_queue.h"
#include "relay/connection/session.h"
#include "relay/connection/session_services.h"
#include "relay/group/device_registry.h"
#include "relay/group/link_group_registry.h"
#include "relay/pipes/memory_budget.h"
#include "relay/worker/active_sessions.h"
#include "relay/worker/admission.h"
#include "relay/worker/decision_log.h"
#include "relay/worker/fallback_log.h"
#include "relay/worker/network.h"
#include "smc/clc/negotiate.h"

namespace fairlead::relay {

// How long sessions that negotiate may run per turn, and likewise those that relay.
inline constexpr Duration kTurnMax = std::chrono::milliseconds(1);
// After the deadline for settling, handshakes get this time to write their Declines.
inline constexpr Duration kHurriedWait = std::chrono::milliseconds(20);
inline constexpr Duration kHurriedWaitMax = std::chrono::milliseconds(200);  // if there are many

struct WorkerSettings {
  unsigned index = 0;
  unsigned workers = 1;
  const config::Config* config = nullptr;  // outlives the worker
  Destinations* destinations = nullptr;    // outlives the worker; null: nothing is learned
  smc::LocalOffer offer;
  LocalSubnetsOf subnets = [](const SocketAddress&) { return std::nullopt; };
  AdmissionLimits limits;
  std::size_t memory_bytes = 0;  // of memory.limit
  std::size_t rings_max = 0;     // part of it for rings; 0: see relay/pipes/memory_budget.h
  bool streams_count = false;    // streams without descriptor count as well
  std::uint64_t seed = 0;        // for tokens
  Duration turn_max = kTurnMax;  // 0: one session of each kind per turn
};

class Worker final : public SessionHost, public DeviceUsers {
 public:
  Worker(WorkerSettings settings, Network& network, WorkerStats& stats);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  DeviceRegistry& devices() { return devices_; }
  LinkGroupRegistry& groups() { return groups_; }
  event::TimerQueue& timers() { return timers_; }

  // True if programs lead connections here, and hear what is told of destinations.
  bool redirected_by_programs() const { return settings_.destinations != nullptr; }

  // A connection has been accepted for this destination.
  void accept(Direction direction, const SocketAddress& destination,
              std::unique_ptr<event::Stream> stream, Arrival arrival = Arrival::kAtListener);

  // The level with which new connections begin.
  unsigned memory_level() const { return SocketMemory::level_for(budget_); }
  bool affords_frames(bool before) const { return SocketMemory::affords_frames(budget_, before); }

  // True when there is more to do at once.
  bool turn();
  // True if polling for news pays compared with sleeping: a lasting session is active.
  bool expects_news() const { return active_.lasting(); }
  // True if exactly one session is active, and over SMC-R. Between turns, a spinning thread then
  // calls try_read() instead of asking the event loop. With two sessions only the loop preserves
  // the order in which their bytes arrived: reading one stream and then the other may find the
  // later bytes first.
  bool single_active() const;
  // Tries to read that session's stream; true if a turn is due. REQUIRES: single_active()
  bool try_read();
  Deadline next_deadline() const { return timers_.next_deadline(); }

  // What there is to park. The applications of `live` connections have not ended.
  struct Parkable {
    std::size_t connections = 0;
    std::size_t settled = 0;  // can be parked as they are now
    std::size_t live = 0;
  };
  Parkable parkable() const;
  // The connections will be parked. No handshake begins any more; those under way end, until
  // `settled` at the latest.
  void start_parking(TimePoint settled);
  // Call this after each turn. Once all are settled or the time is over, returns, once only, the
  // connections that can be parked. The others remain until shut_down().
  std::optional<std::vector<ParkedConnection>> park_when_due();
  // Continues a connection that another process has parked. False: it has been reset.
  bool take_back(ParkedConnection parked);

  // New connections do not use SMC any more; existing ones continue.
  void start_drain() { admission_.start_drain(); }
  std::size_t session_count() const { return sessions_.size(); }
  // Resets the remaining connections, and tells every peer that its groups are gone. Run turns
  // afterwards until shut_down_done().
  void shut_down(const char* why);
  // True when all peers have received the messages of shut_down() and answered, or were given up.
  bool shut_down_done() { return groups_.peers().count() == 0; }

  WorkerSnapshot snapshot(const SnapshotRequest& request);

  void mark_ready(Session& session) override;
  void retire(Session& session) override;
  void grant_permit(std::uint64_t session) override;
  bool many_active() const override { return active_.many(); }
  bool uses(const DeviceSlot& slot) const override;
  void devices_changed() override;

 private:
  void run(std::deque<Session*>& ready);
  void flush();
  Session& add_session(Direction direction, const SocketAddress& destination,
                       std::unique_ptr<event::Stream> accepted, SocketMemory memory,
                       TimePoint began);
  void refuse(event::Stream& stream, Admission::Refusal why);
  bool settled();

  const WorkerSettings settings_;
  Network& network_;
  MemoryBudget budget_;
  event::TimerQueue timers_;
  TcpRelayResources tcp_resources_;
  FallbackLog fallbacks_;
  DecisionLog decisions_;
  AnnouncingPeers announcing_;
  GroupResources group_resources_;
  Admission admission_;
  DeviceRegistry devices_;  // outlives the groups
  LinkGroupRegistry groups_;
  SessionServices services_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Session>> sessions_;
  // Sessions that are ready to run, in order; by what they did when they became ready.
  std::deque<Session*> negotiating_;
  std::deque<Session*> relaying_;
  ActiveSessions active_;
  std::vector<std::unique_ptr<Session>> retired_;
  std::uint64_t numbers_ = 0;  // latest number given to a session
  struct Parking {
    Parking(event::TimerQueue& timers, TimePoint until) : deadline(until), timer(timers, [] {}) {
      timer.set(until);
    }
    TimePoint deadline;
    TimePoint last{};    // the end even if sessions still negotiate
    event::Timer timer;  // wakes the thread
    bool hurried = false;
  };
  std::optional<Parking> parking_;
};

}  // namespace fairlead::relay
