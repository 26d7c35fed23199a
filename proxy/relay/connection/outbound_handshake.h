// The client of a CLC handshake: Proposal, the server's Accept, Confirm, and at first contact a new
// link group.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "relay/connection/handshake_stage.h"
#include "wire/clc.h"

namespace fairlead::relay {

class OutboundHandshake final : public HandshakeStage {
 public:
  // `declined_for`: why SMC-R is not tried. The peer awaits CLC, so it gets a Decline.
  OutboundHandshake(SessionResources& session, HandshakePermit permit,
                    std::unique_ptr<FramedRelay> framed, std::optional<FallbackCause> declined_for)
      : HandshakeStage(session, std::move(permit), std::move(framed)),
        declined_for_(std::move(declined_for)) {}
  // Another process has handed over, and sent the Proposal, whose answer is declined, or a Decline.
  enum class Behind : std::uint8_t { kProposal, kDecline };
  OutboundHandshake(SessionResources& session, std::unique_ptr<FramedRelay> framed, Behind behind)
      : HandshakeStage(session, HandshakePermit(session.services, session.number),
                       std::move(framed)),
        behind_(behind) {}

  StageResult begin(TimePoint now) override;
  // The peer has not answered. The next process dials again if nothing has been read from the
  // application, and otherwise awaits the answer.
  bool parkable(bool at_last) const override {
    return at_last && (awaits_peer() || awaits_hand_over());
  }

 private:
  StageResult resume(TimePoint now);
  std::optional<FallbackCause> propose(TimePoint now);
  std::optional<smc::OfferV1> offer_version_1();
  StageResult handle_message(TimePoint now) override;
  bool choose_slot_of_server(const Gid& gid);
  bool gateway_disputed(const wire::AcceptConfirm& accept) const;
  void make_first_contact(const PeerKey& key, TimePoint now);
  void join_named_link(const PeerKey& key, TimePoint now);
  RingSizes sizes_beside(const wire::AcceptConfirm& accept) const;
  wire::AcceptConfirm confirm_for(const wire::AcceptConfirm& accept) const;
  void handle_announced(TimePoint now) override;
  StageResult handle_stream_end(bool reset, TimePoint now) override;
  StageResult handle_failure(const smc::Handshake::Outcome& outcome, TimePoint now) override;
  StageResult use_tcp(const smc::Handshake::Outcome& outcome) override;
  TimePoint wait_end(TimePoint now) const override;

  std::optional<FallbackCause> declined_for_;
  wire::Proposal proposal_;
  std::optional<Behind> behind_;
};

}  // namespace fairlead::relay
