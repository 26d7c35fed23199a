// Which connections and handshakes a worker takes on: the limits of both, and what is refused at
// them. Belongs to the worker's thread.
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

// Refusals at a limit are logged one in so many.
inline constexpr std::uint64_t kRefusalsPerLine = 1000;

struct AdmissionLimits {
  std::size_t connections_max = 0;  // this worker's share of limits.connections
  // Of these, what inbound connections leave free. Anyone with a route to the pod may open them,
  // and the application shall still reach others.
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

  // There is room for one more connection of this direction.
  bool has_room(Direction direction) const;
  void connection_began(Direction direction) { ++count_of(direction); }
  void connection_ended(Direction direction) { --count_of(direction); }
  std::size_t connection_count() const { return connections_[0] + connections_[1]; }
  // Counts a connection that is reset for want of something, and says so now and then.
  void note_refusal(const event::Stream& accepted, Refusal why);

  // False: limits.handshakes is reached, or the client at this address (of IPv6: in this /64) has
  // in hand as many as are free, so that those of others always find some. Otherwise
  // end_handshake() follows.
  bool begin_handshake(const std::optional<SocketAddress>& client = std::nullopt);
  void end_handshake(const std::optional<SocketAddress>& client);
  HandshakeLimiter& limiter() { return limiter_; }

  // No more SMC for new connections; what runs goes on. Also after parking, when nobody has taken
  // the connections.
  void start_drain() {
    draining_ = true;
    parking_ = false;
  }
  bool draining() const { return draining_; }
  // No handshake begins: the connections are to be parked, and the next process begins them.
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
  AddressShares handshakes_of_;                     // clients, of inbound ones
  std::array<std::uint64_t, kRefusals> refused_{};  // by Refusal
  HandshakeLimiter limiter_;
  bool draining_ = false;
  bool parking_ = false;
};

}  // namespace fairlead::relay
