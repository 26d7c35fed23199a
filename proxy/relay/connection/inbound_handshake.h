// The server of a CLC handshake: the client's Proposal, our Accept, the client's Confirm, and at
// first contact a new link group. The application is dialled before the Accept, so that a closed
// port is still a refused connection.
#pragma once

#include <memory>
#include <optional>

#include "relay/connection/handshake.h"
#include "wire/clc.h"

namespace fairlead::relay {

// How long a peer that is only assumed to speak SMC may be silent. After that, it counts as plain
// TCP.
inline constexpr Duration kClcDetectionTimeout = std::chrono::seconds(2);
// At first contact, how soon a server checks again for the client's memory. Later checks are
// farther apart.
inline constexpr Duration kClientMemoryInterval = std::chrono::milliseconds(1);

class InboundHandshake final {
 public:
  static constexpr const char* kName = "InboundHandshake";
  using Ignores = Events<PermitGranted, WorkerEnds>;

  enum class First : std::uint8_t { kProposal, kFramesOrProposal };
  // `assumed`: by configuration the client speaks SMC; its SYN carried no option.
  InboundHandshake(SessionResources& session, First first, bool assumed);
  // Begins after the client's hand-over.
  InboundHandshake(SessionResources& session, std::unique_ptr<FramedRelay> framed);
  // As above, but another process has sent the Accept. The Confirm of a first contact is declined.
  // Other clients accept no Decline any more, and their connections end.
  struct BehindAccept {};
  InboundHandshake(SessionResources& session, std::unique_ptr<FramedRelay> framed, BehindAccept);

  StageResult handle(Entered, TimePoint now);
  StageResult handle(Ready, TimePoint now);
  StageResult handle(DeadlineDue, TimePoint now);
  StageResult handle(GroupConfirmed, TimePoint now);
  StageResult handle(GroupRefused refused, TimePoint now) {
    return refuse_link(common_, refused.reason, now);
  }
  StageResult handle(GroupLost, TimePoint now);
  StageResult handle(RmbAnnounced, TimePoint now);
  // Declines, unless the peer is past the point where it accepts that.
  StageResult handle(ParkWanted, TimePoint now) {
    decline_waiting(common_, now);
    return Stay{};
  }
  bool parkable(bool at_last) const {
    return at_last && common_.framed != nullptr && awaits_peer(common_);
  }
  ParkedMode park() { return relay::park(common_); }
  void leave(TimePoint now) { relay::leave(common_, now); }
  SmcRelay* smc() { return common_.membership.joined() ? &common_.membership.relay() : nullptr; }
  FramedRelay* framed() { return common_.framed.get(); }
  bool uses(const DeviceSlot& slot) const { return common_.path.slot == &slot; }

 private:
  void await_proposal(Duration timeout);
  // Checks for first bytes that need not be CLC. Empty if the handshake is to process them.
  std::optional<StageResult> judge_first_bytes();
  StageResult handle_message(TimePoint now);
  StageResult handle_proposal(TimePoint now);
  std::optional<FallbackReason> find_way_to_client();
  void answer_proposal(TimePoint now);
  void await_first_contact(TimePoint now);
  void send_accept(TimePoint now);
  StageResult handle_confirm(TimePoint now);
  void connect_first_link(TimePoint now);
  void await_client_memory(TimePoint now);
  StageResult handle_stream_end(bool reset);
  StageResult end_in_failure(const smc::Handshake::Outcome& outcome, TimePoint now);
  StageResult pass_on(smc::Handshake::Outcome outcome);
  StageResult end_in_tcp(const smc::Handshake::Outcome& outcome);
  // When the client must be told that no answer will come.
  TimePoint wait_end(TimePoint now) const;
  SessionServices& services() const { return common_.session.services; }
  smc::Handshake& handshake() { return common_.exchange.handshake(); }

  HandshakeCommon common_;
  bool frames_possible_ = false;  // the client may begin with frames
  const bool assumed_ = false;
  bool way_found_ = false;  // the Proposal waits until the application is connected
  bool behind_accept_ = false;
  wire::AcceptConfirm accept_;
  // First contact: since when CONFIRM_LINK waits for the client's memory.
  std::optional<TimePoint> client_memory_since_;
};

}  // namespace fairlead::relay
