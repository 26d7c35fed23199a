// The client of a CLC handshake: our Proposal, the server's Accept, our Confirm, and at first
// contact a new link group.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "relay/connection/handshake.h"
#include "wire/clc.h"

namespace fairlead::relay {

class OutboundHandshake final {
 public:
  static constexpr const char* kName = "OutboundHandshake";
  using Ignores = Events<PermitGranted, WorkerEnds>;

  // `declined_for`: why SMC-R is not tried. The peer awaits CLC, so it gets a Decline.
  OutboundHandshake(SessionResources& session, HandshakePermit permit,
                    std::unique_ptr<FramedRelay> framed, std::optional<FallbackCause> declined_for)
      : common_(session, std::move(permit), std::move(framed)),
        declined_for_(std::move(declined_for)) {}
  // Another process has handed over, and sent a Decline, or a Proposal whose answer is declined.
  enum class Behind : std::uint8_t { kProposal, kDecline };
  OutboundHandshake(SessionResources& session, std::unique_ptr<FramedRelay> framed, Behind behind)
      : common_(session, HandshakePermit(session.services, session.number), std::move(framed)),
        behind_(behind) {}

  StageResult handle(Entered, TimePoint now);
  StageResult handle(Ready, TimePoint now);
  StageResult handle(DeadlineDue, TimePoint now);
  StageResult handle(GroupConfirmed, TimePoint now);
  StageResult handle(GroupRefused refused, TimePoint now) {
    return refuse_link(common_, refused.reason, now);
  }
  StageResult handle(GroupLost, TimePoint now) { return lose_group(common_, now); }
  StageResult handle(RmbAnnounced, TimePoint now);
  // Declines, unless the peer is past the point where it accepts that.
  StageResult handle(ParkWanted, TimePoint now) {
    decline_waiting(common_, now);
    return Stay{};
  }
  // True if the peer has not answered. The next process dials again if nothing has been read from
  // the application; otherwise it awaits the answer.
  bool parkable(bool at_last) const {
    return at_last && (awaits_peer(common_) || awaits_hand_over(common_));
  }
  ParkedMode park() { return relay::park(common_); }
  void leave(TimePoint now) { relay::leave(common_, now); }
  SmcRelay* smc() { return common_.membership.joined() ? &common_.membership.relay() : nullptr; }
  FramedRelay* framed() { return common_.framed.get(); }
  bool uses(const DeviceSlot& slot) const { return common_.path.slot == &slot; }

 private:
  StageResult resume(TimePoint now);
  std::optional<FallbackCause> propose(TimePoint now);
  std::optional<smc::OfferV1> offer_version_1();
  void handle_accept(TimePoint now);
  bool choose_slot_of_server(const Gid& gid);
  bool gateway_disputed(const wire::AcceptConfirm& accept) const;
  void make_first_contact(const PeerKey& key, TimePoint now);
  void join_named_link(const PeerKey& key, TimePoint now);
  RingSizes sizes_beside(const wire::AcceptConfirm& accept) const;
  wire::AcceptConfirm confirm_for(const wire::AcceptConfirm& accept);
  // Called when the server knows the key of our element.
  void send_confirm(TimePoint now);
  StageResult end_in_failure(TimePoint now);
  StageResult end_in_tcp(TimePoint now);
  // When the server must be told that no answer will come.
  TimePoint wait_end(TimePoint now) const;
  SessionServices& services() const { return common_.session.services; }
  smc::Handshake& handshake() { return common_.exchange.handshake(); }

  HandshakeCommon common_;
  std::optional<FallbackCause> declined_for_;
  wire::Proposal proposal_;
  std::optional<Behind> behind_;
};

}  // namespace fairlead::relay
