// Connects to the destination: to the peer (outbound), or to the application (inbound). Before
// that, decides whether to try SMC-R.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "relay/connection/frames_stage.h"
#include "relay/connection/handshake_permit.h"
#include "relay/connection/session_resources.h"
#include "relay/connection/stage.h"

namespace fairlead::relay {

// Dials the peer. The SYN carries the SMC option if SMC-R is tried.
class OutboundDial final {
 public:
  static constexpr const char* kName = "OutboundDial";
  using Ignores =
      Events<GroupConfirmed, GroupRefused, GroupLost, RmbAnnounced, ParkWanted, WorkerEnds>;

  explicit OutboundDial(SessionResources& session)
      : OutboundDial(session, HandshakePermit(session.services, session.number), std::nullopt) {}
  // Dials without the option, after a handshake that failed for `cause`.
  OutboundDial(SessionResources& session, HandshakePermit permit,
               std::optional<FallbackCause> cause);

  StageResult handle(Entered, TimePoint now);
  StageResult handle(Ready, TimePoint now);
  StageResult handle(DeadlineDue due, TimePoint now);
  StageResult handle(PermitGranted, TimePoint);
  // The next process can dial again, because nothing has been read from the application. But the
  // peer may have seen a connection already, so that is only done at last.
  bool parkable(bool at_last) const { return at_last || session_.net == nullptr; }

 private:
  std::optional<FallbackReason> obstacle();
  StageResult dial(bool with_option, TimePoint now);
  StageResult connected(TimePoint now);
  StageResult choose(TimePoint now);

  SessionResources& session_;
  HandshakePermit permit_;
  bool answering_ = false;              // the peer is connected, and the application will be
  std::optional<FallbackCause> cause_;  // why SMC-R is not tried
  bool assumed_ = false;                // to speak SMC, by configuration; no option is requested
};

// Dials the application. Before that, the announcement in the peer's SYN decides which stage
// follows.
class InboundDial final {
 public:
  static constexpr const char* kName = "InboundDial";
  using Ignores = Events<PermitGranted, GroupConfirmed, GroupRefused, GroupLost, RmbAnnounced,
                         ParkWanted, WorkerEnds>;

  explicit InboundDial(SessionResources& session);
  // The Proposal waits for its answer meanwhile, so that a closed port is still a refused
  // connection.
  InboundDial(SessionResources& session, StagePtr<InboundHandshake> handshake);
  // The handshake has led to TCP. `permit` is given back when the application is connected.
  InboundDial(SessionResources& session, HandshakePermit permit, UseTcp tcp);
  // The client has begun with `frames`, which start with the preface.
  InboundDial(SessionResources& session, std::vector<std::byte> frames);

  StageResult handle(Entered, TimePoint now);
  StageResult handle(Ready, TimePoint now);
  StageResult handle(DeadlineDue, TimePoint);
  bool uses(const DeviceSlot& slot) const;

 private:
  struct Undecided {};
  struct FirstFrames {
    std::vector<std::byte> bytes;
  };
  // What follows when the application is connected.
  using Next = std::variant<Undecided, FirstFrames, StagePtr<FramesStage>,
                            StagePtr<InboundHandshake>, UseTcp>;
  StageResult choose(TimePoint now);
  StageResult dial(TimePoint now);
  void offer(std::vector<std::byte> first_frames, TimePoint now);
  StageResult connected(TimePoint now);

  InboundDial(SessionResources& session, HandshakePermit permit, Next next);

  SessionResources& session_;
  HandshakePermit permit_;
  Next next_;
};

}  // namespace fairlead::relay
