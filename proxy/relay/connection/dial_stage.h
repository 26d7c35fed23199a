// Connects to where the connection leads: to the peer (outbound), or to the application (inbound).
// Decides before that whether SMC-R is worth a try.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "event/timer_queue.h"
#include "relay/connection/frames_stage.h"
#include "relay/connection/handshake_permit.h"
#include "relay/connection/session_resources.h"
#include "relay/connection/stage.h"

namespace fairlead::relay {

class DialStage : public Stage {
 public:
  StageResult handle_deadline(TimePoint now) override;

 protected:
  explicit DialStage(SessionResources& session)
      : session_(session),
        timer_(session.services.timers, [&session] { session.host.handle_stage_deadline(); }) {}
  StageResult failed(int error);

  SessionResources& session_;
  event::Timer timer_;
};

// To the peer. The SYN carries the SMC option if SMC-R is tried.
class OutboundDial final : public DialStage {
 public:
  explicit OutboundDial(SessionResources& session)
      : DialStage(session), permit_(session.services, session.number) {}
  // Without the option, after a handshake that failed for `cause`.
  OutboundDial(SessionResources& session, HandshakePermit permit, FallbackCause cause)
      : DialStage(session), permit_(std::move(permit)), cause_(std::move(cause)) {}

  StageResult begin(TimePoint now) override;
  StageResult run(TimePoint now) override;
  StageResult handle_deadline(TimePoint now) override;
  void handle_permit_granted() override;
  // The next process dials again: nothing has been read from the application. The peer may have
  // seen a connection already.
  bool parkable(bool at_last) const override { return at_last || session_.net == nullptr; }

 private:
  std::optional<FallbackReason> obstacle();
  StageResult dial(bool with_option, TimePoint now);
  StageResult connected(TimePoint now);

  HandshakePermit permit_;
  std::optional<FallbackCause> cause_;  // why SMC-R is not tried
  bool assumed_ = false;                // to speak SMC, by configuration; no option is asked for
};

// To the application. Before that, what the SYN of the peer has said decides what comes.
class InboundDial final : public DialStage {
 public:
  explicit InboundDial(SessionResources& session);
  // The Proposal waits for its answer meanwhile: a closed port is still a refused connection.
  InboundDial(SessionResources& session, std::unique_ptr<Stage> handshake);
  // The handshake has led to TCP, and `permit` is given back when the application is there.
  InboundDial(SessionResources& session, HandshakePermit permit, UseTcp tcp);
  // The client has begun with `frames`, from the preface on.
  InboundDial(SessionResources& session, std::vector<std::byte> frames);

  StageResult begin(TimePoint now) override;
  StageResult run(TimePoint now) override;
  bool uses(const DeviceSlot& slot) const override;

 private:
  struct Undecided {};
  struct FirstFrames {
    std::vector<std::byte> bytes;
  };
  StageResult choose(TimePoint now);
  StageResult dial(TimePoint now);
  void offer(std::vector<std::byte> first_frames, TimePoint now);
  StageResult connected(TimePoint now);

  HandshakePermit permit_;
  // What follows.
  std::variant<Undecided, FirstFrames, std::unique_ptr<FramesStage>, std::unique_ptr<Stage>, UseTcp>
      next_;
};

}  // namespace fairlead::relay
