// Decides which connections and handshakes a worker accepts, by the limits of both. Belongs to the
// worker's thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/fallback.h"
#include "base/paced_lines.h"
#include "base/stats.h"
#include "event/stream.h"
#include "relay/group/address_shares.h"
#include "relay/pipes/memory_budget.h"
#include "relay/worker/handshake_limiter.h"

namespace fairlead::relay {

// One of this many refusals at a limit is logged.
inline constexpr std::uint64_t kRefusalsPerLine = 1000;

struct AdmissionLimits {
  std::size_t connections_max = 0;  // this worker's share of limits.connections
  // The part of connections_max that inbound connections leave free. Anyone with a route to the pod
  // may open these, but the application must still reach others.
  std::size_t kept_for_outbound = 0;
  std::size_t handshakes_max = 0;
  std::size_t handshakes_per_peer_max = 1;  // not 0
};

class Admission {
 public:
  enum class Refusal : std::uint8_t { kConnections, kMemory, kDescriptors };
  static constexpr std::size_t kRefusals = 3;

  Admission(const AdmissionLimits& limits, const MemoryBudget& budget, WorkerStats& stats,
            const Clock& clock, PacedLines& lines)
      : limits_(limits),
        budget_(budget),
        stats_(stats),
        clock_(clock),
        lines_(lines),
        limiter_(limits.handshakes_per_peer_max) {}

  // True if there is room for another connection in this direction.
  bool has_room(Direction direction) const;
  void connection_began(Direction direction) { ++count_of(direction); }
  void connection_ended(Direction direction) { --count_of(direction); }
  std::size_t connection_count() const { return connections_[0] + connections_[1]; }
  // Counts a connection that is reset for lack of a resource. Logs one in kRefusalsPerLine.
  void note_refusal(const event::Stream& accepted, Refusal why);

  // False if limits.handshakes is reached, or if the client at this address (IPv6: in this /64) has
  // as many handshakes under way as are free, so that other clients always find some. After true,
  // end_handshake() must follow.
  bool begin_handshake(const std::optional<SocketAddress>& client = std::nullopt);
  void end_handshake(const std::optional<SocketAddress>& client);
  HandshakeLimiter& limiter() { return limiter_; }

  // New connections do not use SMC any more; existing ones continue. Also called after parking, if
  // no process has taken the connections.
  void start_drain() {
    draining_ = true;
    parking_ = false;
  }
  bool draining() const { return draining_; }
  // No handshake begins any more: the connections are to be parked, and the next process begins
  // them.
  void start_parking() { parking_ = true; }
  bool parking() const { return parking_; }

 private:
  std::size_t& count_of(Direction direction) {
    return connections_[static_cast<std::size_t>(direction)];
  }

  const AdmissionLimits limits_;
  const MemoryBudget& budget_;
  WorkerStats& stats_;
  const Clock& clock_;
  PacedLines& lines_;
  std::array<std::size_t, 2> connections_{};  // by Direction
  std::size_t handshakes_ = 0;
  AddressShares handshakes_of_;                     // by client, of inbound connections
  std::array<std::uint64_t, kRefusals> refused_{};  // by Refusal
  HandshakeLimiter limiter_;
  bool draining_ = false;
  bool parking_ = false;
};

}  // namespace fairlead::relay
