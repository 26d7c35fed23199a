// Returns a connection from SMC-R to frames over its CLC connection, because one of the two proxies
// is being replaced. smc/frames/return_to_frames.h has the rules.
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
#include "smc/frames/return_to_frames.h"

namespace fairlead::relay {

// Time from the beginning of a return until both sides are done. If a peer takes longer, the
// connection is lost.
inline constexpr Duration kReturnWait = std::chrono::seconds(10);
// The remaining bytes of a send ring may not fit into frames yet. No event tells when they do.
inline constexpr Duration kRingLook = std::chrono::milliseconds(1);

class SmcReturn {
 public:
  // `peer_knows`: the peer is a Fairlead proxy. Others ignore bytes on the CLC connection.
  SmcReturn(SessionResources& session, bool peer_knows)
      : session_(session), peer_knows_(peer_knows) {}

  // Processes bytes from the CLC connection.
  void take(std::span<const std::byte> bytes);
  // True while more bytes may come before the frames.
  bool reads_on() const { return !frames_.peer_has_all(); }
  // True if everything that is still awaited comes on the CLC connection.
  bool needs_no_link() const {
    return may_end_well() && frames_.said_return() && frames_.said_returned();
  }
  // The peer has ended the CLC connection, so it does not take part in a return.
  void cancel(SmcRelay& relay);

  enum class Step : std::uint8_t {
    kNothing,  // nothing to do until something arrives
    kDone,     // both sides have everything; call finish()
    kBroken,   // rule broken by the peer, or timeout, see fault(); returned once
  };
  // Called in a turn, after the relay's pump(). `wanted`: this side is being replaced.
  Step step(SmcRelay& relay, bool wanted, TimePoint now);
  // When step() must be called although nothing happens.
  Deadline next_deadline(const SmcRelay& relay, TimePoint now) const;
  const char* fault() const { return fault_; }
  // The state that continues in frames. REQUIRES: kDone
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
  std::optional<TimePoint> until_;  // set once the return has begun
  smc::ReturnToFrames frames_;
  smc::RingWindow unwritten_;  // of the send ring
  Backlog to_net_;
  std::vector<std::byte> behind_;  // frames that the peer has sent since its return
  const char* fault_ = "";
  bool fault_said_ = false;
};

}  // namespace fairlead::relay
