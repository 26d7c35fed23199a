// A connection over SMC-R that goes back to frames over its CLC connection, because one of the two
// proxies is replaced. The rules are those of smc/return_to_frames.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"
#include "relay/backlog.h"
#include "relay/session_resources.h"
#include "relay/smc_relay.h"
#include "smc/return_to_frames.h"

namespace fairlead::relay {

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
  bool needs_no_link() const { return frames_.said_return() && frames_.said_returned(); }
  // The peer has ended the CLC connection: it knows of no return.
  void cancel(SmcRelay& relay);

  enum class Step : std::uint8_t {
    kNothing,  // to do until something comes
    kDone,     // both sides have all: finish()
    kBroken,   // the peer has broken a rule: fault(); said once
  };
  // In a turn, behind the relay's. `wanted`: this side is replaced.
  Step step(SmcRelay& relay, bool wanted);
  // It waits until what is left in the send ring fits into frames. No event tells of that.
  bool waits_for_ring() const { return begun_ && peer_knows_ && !frames_.said_return(); }
  const char* fault() const { return fault_; }
  // What goes on in frames. REQUIRES: kDone
  ParkedFrames finish(SmcRelay& relay, TimePoint now);
  std::vector<std::byte> release_behind() { return std::move(behind_); }

 private:
  bool begin(SmcRelay& relay, bool wanted);
  void send(std::span<const std::byte> bytes);
  void frame_unwritten(const SmcRelay& relay, ParkedFrames& frames, TimePoint now);

  SessionResources& session_;
  bool peer_knows_;
  bool begun_ = false;
  smc::ReturnToFrames frames_;
  smc::RingWindow unwritten_;  // of the send ring
  Backlog to_net_;
  std::vector<std::byte> behind_;  // frames that the peer has sent since
  const char* fault_ = "";
  bool fault_said_ = false;
};

}  // namespace fairlead::relay
