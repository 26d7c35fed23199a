// A connection over SMC-R that goes back to frames over its CLC connection, because one of the two
// proxies is replaced. The rules are those of smc/return_to_frames.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "relay/connection/session_resources.h"
#include "relay/pipes/backlog.h"
#include "relay/pipes/smc_relay.h"
#include "smc/return_to_frames.h"

namespace fairlead::relay {

// From a return that begins until both sides are done. A peer that takes longer loses the
// connection.
inline constexpr Duration kReturnWait = std::chrono::seconds(10);
// What is left in a send ring may not fit into frames yet. No event tells when it does.
inline constexpr Duration kRingLook = std::chrono::milliseconds(1);

class SmcReturn {
 public:
  // `peer_knows`: the peer is a Fairlead proxy. Others ignore what comes on the CLC connection.
  SmcReturn(SessionResources& session, bool peer_knows)
      : session_(session), peer_knows_(peer_knows) {}

  // What has come on the CLC connection.
  void take(std::span<const std::byte> bytes);
  // True while more may come before the frames.
  bool reads_on() const { return !frames_.peer_has_all(); }
  // All that is awaited comes on the CLC connection.
  bool needs_no_link() const {
    return may_end_well() && frames_.said_return() && frames_.said_returned();
  }
  // The peer has ended the CLC connection: it knows of no return.
  void cancel(SmcRelay& relay);

  enum class Step : std::uint8_t {
    kNothing,  // to do until something comes
    kDone,     // both sides have all: finish()
    kBroken,   // the peer has broken a rule, or takes too long: fault(); said once
  };
  // In a turn, behind the relay's. `wanted`: this side is replaced.
  Step step(SmcRelay& relay, bool wanted, TimePoint now);
  // When step() is due although nothing happens.
  Deadline next_deadline(const SmcRelay& relay, TimePoint now) const;
  const char* fault() const { return fault_; }
  // What goes on in frames. REQUIRES: kDone
  ParkedFrames finish(SmcRelay& relay, TimePoint now);
  std::vector<std::byte> release_behind() { return std::move(behind_); }

 private:
  bool may_end_well() const { return peer_knows_ && *fault_ == '\0'; }
  bool begin(SmcRelay& relay, bool wanted);
  Step fail(const char* fault);
  void send(std::span<const std::byte> bytes);
  void frame_unwritten(const SmcRelay& relay, ParkedFrames& frames, TimePoint now);

  SessionResources& session_;
  bool peer_knows_;
  std::optional<TimePoint> until_;  // once it has begun
  smc::ReturnToFrames frames_;
  smc::RingWindow unwritten_;  // of the send ring
  Backlog to_net_;
  std::vector<std::byte> behind_;  // frames that the peer has sent since
  const char* fault_ = "";
  bool fault_said_ = false;
};

}  // namespace fairlead::relay
