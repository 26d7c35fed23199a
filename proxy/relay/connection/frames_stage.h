// A connection in frames, until it has earned SMC-R or ends. See smc/deferral.h for the rules.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "relay/connection/handshake_permit.h"
#include "relay/connection/peer_liveness.h"
#include "relay/connection/session_resources.h"
#include "relay/connection/stage.h"
#include "relay/pipes/framed_relay.h"

namespace fairlead::relay {

// What a client's preface says. REQUIRES: one of the two in wire/frame.h stands first
smc::Deferral::Windows windows_in(std::span<const std::byte> first_bytes);

// The frames of a connection that another process, or SMC-R, has left. REQUIRES: what
// smc::Deferral::resume() takes
std::unique_ptr<FramedRelay> resume_frames(SessionResources& session, ParkedFrames parked,
                                           TimePoint began);

class FramesStage final {
 public:
  static constexpr const char* kName = "FramesStage";
  using Ignores =
      Events<GroupConfirmed, GroupRefused, GroupLost, RmbAnnounced, ParkWanted, WorkerEnds>;

  // From the connection's beginning. The memory for frames is paid for.
  FramesStage(SessionResources& session, smc::Deferral::Windows windows, TimePoint now);
  // A handshake behind the hand-over has failed: what the peer said in frames still goes to the
  // application, then the peer is reset.
  FramesStage(SessionResources& session, std::unique_ptr<FramedRelay> relay);
  // Goes on where another process, or SMC-R, has left it. REQUIRES: what smc::Deferral::resume()
  // takes
  FramesStage(SessionResources& session, ParkedFrames parked, TimePoint began);

  // Before it begins: it was over SMC-R, and the peer has sent this since. While this
  // process parks, it makes no handshake.
  void return_with(std::span<std::byte> unread) {
    returned_ = true;
    (void)relay_->towards_app().take(unread);
  }
  // At a server, before it begins: what the client has sent, from the preface on.
  void take(std::span<std::byte> unread);
  StageResult handle(Entered, TimePoint now);
  StageResult handle(Ready, TimePoint now);
  StageResult handle(DeadlineDue due, TimePoint now);
  StageResult handle(PermitGranted, TimePoint);
  FramedRelay* framed() { return relay_.get(); }
  // A handshake that the connection waits for begins in the next process.
  bool parkable(bool) const { return true; }
  ParkedMode park() { return relay_->park(); }

 private:
  StageResult broken();
  StageResult hand_over(TimePoint now);
  void prepare_handshake(TimePoint now);
  StageResult answer_hand_over(TimePoint now);
  void cancel_handshake();
  void open_window();
  bool window_blocks_too_long(TimePoint now);

  SessionResources& session_;
  std::unique_ptr<FramedRelay> relay_;
  bool counted_ = false;    // as a connection in frames
  bool peer_over_ = false;  // the peer is not answered any more
  bool returned_ = false;   // it was over SMC-R
  PeerLiveness liveness_;
  std::uint64_t window_ = smc::kFirstWindowBytes;  // that the peer got last
  std::optional<TimePoint> blocked_until_;         // a client's: while a window blocks
  // A client's handshake that the connection has earned.
  struct Earned {
    HandshakePermit permit;
    std::optional<FallbackCause> declined_for;  // there will be none
  };
  std::unique_ptr<Earned> earned_;
};

}  // namespace fairlead::relay
