// A connection in frames, until it has earned SMC-R or ends. See smc/frames/deferral.h for the
// rules.
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

// Whether the client's preface announces windows. REQUIRES: the bytes begin with a preface of
// wire/frame.h
smc::Deferral::Windows windows_in(std::span<const std::byte> first_bytes);

// The frames of a connection that another process, or SMC-R, has left. REQUIRES: as
// smc::Deferral::resume()
std::unique_ptr<FramedRelay> resume_frames(SessionResources& session, ParkedFrames parked,
                                           TimePoint began);

class FramesStage final {
 public:
  static constexpr const char* kName = "FramesStage";
  using Ignores =
      Events<GroupConfirmed, GroupRefused, GroupLost, RmbAnnounced, ParkWanted, WorkerEnds>;

  // Begins in frames. REQUIRES: the memory for frames is paid for.
  FramesStage(SessionResources& session, smc::Deferral::Windows windows, TimePoint now);
  // The handshake after the hand-over has failed. The application still receives what the peer sent
  // in frames, then the peer is reset.
  FramesStage(SessionResources& session, std::unique_ptr<FramedRelay> relay);
  // Continues where another process, or SMC-R, has left the connection. REQUIRES: as
  // smc::Deferral::resume()
  FramesStage(SessionResources& session, ParkedFrames parked, TimePoint began);

  // Before Entered: the connection comes back from SMC-R, and the peer has sent `unread` since. It
  // makes no handshake while this process parks.
  void return_with(std::span<std::byte> unread) {
    returned_ = true;
    (void)relay_->towards_app().take(unread);
  }
  // On a server, before Entered: what the client has sent, starting with the preface.
  void take(std::span<std::byte> unread);
  StageResult handle(Entered, TimePoint now);
  StageResult handle(Ready, TimePoint now);
  StageResult handle(DeadlineDue due, TimePoint now);
  StageResult handle(PermitGranted, TimePoint);
  FramedRelay* framed() { return relay_.get(); }
  // If the connection waits for a handshake, that begins in the next process.
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
  bool peer_over_ = false;  // the peer gets no more answers
  bool returned_ = false;   // from SMC-R
  PeerLiveness liveness_;
  std::uint64_t window_ = smc::kFirstWindowBytes;  // the latest one that the peer has received
  std::optional<TimePoint> blocked_until_;         // for a client: while a window blocks
  // The handshake that a client's connection has earned.
  struct Earned {
    HandshakePermit permit;
    std::optional<FallbackCause> declined_for;  // then there will be no handshake
  };
  std::unique_ptr<Earned> earned_;
};

}  // namespace fairlead::relay
