// The server of a CLC handshake: the client's Proposal, Accept, the client's Confirm, and at first
// contact a new link group. The application is dialled before the Accept, so that a closed port is
// still a refused connection.
#pragma once

#include <memory>
#include <optional>

#include "relay/connection/handshake.h"
#include "wire/clc.h"

namespace fairlead::relay {

// How long a peer that is only assumed to speak SMC may be silent before it is taken for plain TCP.
inline constexpr Duration kClcDetectionTimeout = std::chrono::seconds(2);
// How soon a server looks again for the memory of the client, at first contact. Later looks are
// farther apart.
inline constexpr Duration kClientMemoryInterval = std::chrono::milliseconds(1);

class InboundHandshake final {
 public:
  static constexpr const char* kName = "InboundHandshake";
  using Ignores = Events<PermitGranted, WorkerEnds>;

  enum class First : std::uint8_t { kProposal, kFramesOrProposal };
  // `assumed`: the client is to speak SMC by configuration; no option was seen.
  InboundHandshake(SessionResources& session, First first, bool assumed);
  // Behind the client's hand-over.
  InboundHandshake(SessionResources& session, std::unique_ptr<FramedRelay> framed);
  // The same, where another process has sent the Accept. The Confirm of a first contact is
  // declined. Others are beyond a Decline, and their connections end.
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
  // Declines, where the peer hears that.
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
  // First bytes that need not be CLC. Nothing if the handshake shall have them.
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
  // When the client, which waits for an answer meanwhile, has to be told that none will come.
  TimePoint wait_end(TimePoint now) const;
  SessionServices& services() const { return common_.session.services; }
  smc::Handshake& handshake() { return common_.exchange.handshake(); }

  HandshakeCommon common_;
  bool frames_possible_ = false;  // the client may begin with them
  const bool assumed_ = false;
  bool way_found_ = false;  // the Proposal waits for the application
  bool behind_accept_ = false;
  wire::AcceptConfirm accept_;
  // First contact: CONFIRM_LINK has waited for the client's memory since then.
  std::optional<TimePoint> client_memory_since_;
};

}  // namespace fairlead::relay
