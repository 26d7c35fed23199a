#include "relay/connection/outbound_handshake.h"

#include <algorithm>

#include "relay/connection/dial_stage.h"
#include "smc/connection/cursor.h"

namespace fairlead::relay {

StageResult OutboundHandshake::handle(Entered, TimePoint now) {
  if (behind_) return resume(now);
  if (!declined_for_) declined_for_ = propose(now);
  if (declined_for_) {
    // Sends a Decline instead of the Proposal.
    common_.exchange.begin(smc::Handshake::refusal(services().offer.peer_id, declined_for_->reason,
                                                   declined_for_->detail));
    // The peer must still hand over.
    if (common_.framed) wait_until(common_, now + services().config.smc.handshake_timeout);
  }
  return handle(Ready{}, now);
}

StageResult OutboundHandshake::handle(Ready, TimePoint now) {
  for (;;) {
    switch (advance(common_, now)) {
      case HandshakeProgress::kNothing:
        return Stay{};
      case HandshakeProgress::kMessage:
        handle_accept(now);
        break;
      case HandshakeProgress::kEnd:
      case HandshakeProgress::kReset:
        return fail(common_, "the peer closed the connection during the handshake");
      case HandshakeProgress::kLost:
        return fail(common_, common_.lost_why);
      case HandshakeProgress::kEstablished:
        return use_smc(common_);
      case HandshakeProgress::kTcp:
        return end_in_tcp(now);
      case HandshakeProgress::kFailed:
        return end_in_failure(now);
    }
  }
}

StageResult OutboundHandshake::handle(DeadlineDue, TimePoint now) {
  if (std::optional<StageResult> result = handle_wait_deadline(common_, now))
    return std::move(*result);
  wait_for_peer(common_);  // after the wait for the link comes that for a Decline of the peer
  common_.session.mark_ready();
  return Stay{};
}

StageResult OutboundHandshake::handle(GroupConfirmed, TimePoint now) {
  // The group was confirmed before this connection came, but the event arrives only now.
  if (common_.wait == HandshakeWait::kAnnouncement) return Stay{};
  if (handshake().state() == smc::Handshake::State::kAwaitingLink) {
    // The server connects its queue pair after the Confirm, so its memory is accessible from now
    // on.
    if (!set_peer(common_)) {
      common_.session.note("the memory of the peer has not come");
      decline(common_, FallbackReason::kHandshakeTimeout, now);
      return Stay{};
    }
    handshake().link_confirmed();
  }
  common_.session.mark_ready();
  return Stay{};
}

StageResult OutboundHandshake::handle(RmbAnnounced, TimePoint now) {
  if (!announcement_over(common_, now)) return Stay{};
  send_confirm(now);
  common_.session.mark_ready();
  return Stay{};
}

StageResult OutboundHandshake::resume(TimePoint now) {
  const PeerId& own = services().offer.peer_id;
  const Duration patience = services().config.smc.handshake_timeout;
  if (behind_ == Behind::kDecline)
    common_.exchange.begin(smc::Handshake::behind_decline(own, FallbackReason::kDraining));
  else
    common_.exchange.begin(smc::Handshake::behind_proposal(own, now, patience));
  wait_until(common_, now + patience);
  return handle(Ready{}, now);
}

// Returns the reason if there is no Proposal.
std::optional<FallbackCause> OutboundHandshake::propose(TimePoint now) {
  common_.session.report.set_phase("clc_proposal");
  const smc::LocalOffer& offer = services().offer;
  if (!offer.version_2) common_.terms.version = 1;
  const DeviceRegistry::Offered offered = services().devices.offer_towards(place(common_));
  common_.path.withheld = offered.withheld;
  if (offered.withheld && offered.slot == nullptr) {
    common_.session.note("the path to the peer is encrypted: declined");
    return FallbackCause{.reason = FallbackReason::kIpsec,
                         .detail = "no other device reaches the peer"};
  }
  common_.path.slot = offered.slot;
  common_.path.port = offered.port;
  const std::optional<smc::OfferV1> v1 = offer_version_1();
  if (!offer.version_2 && !v1) {
    common_.session.note("version 1 alone is spoken here, and the connection has no subnet");
    return FallbackCause{.reason = FallbackReason::kConfigError, .detail = "no subnet"};
  }
  proposal_ = smc::make_proposal(offer, offered.port.gid, offered.port.mac, offered.vendor, v1);
  if (proposal_.v2) proposal_.v2->max_links = services().devices.links_offered();
  common_.exchange.begin(smc::Handshake::client(proposal_, offer.peer_id, now,
                                                services().config.smc.handshake_timeout));
  wait_for_peer(common_);
  return std::nullopt;
}

// Together with version 2, only from a GID that peers of any vendor can use.
std::optional<smc::OfferV1> OutboundHandshake::offer_version_1() {
  if (!services().offer.version_1) return std::nullopt;
  Gid gid = common_.path.port.gid;
  if (services().offer.version_2) {
    if (common_.path.slot == nullptr) return std::nullopt;
    Place at = place(common_);
    at.version = 1;
    const auto port = common_.path.slot->reachability().roce_v1_port(common_.path.port, at);
    if (!port) return std::nullopt;
    gid = port->gid;
  }
  const std::optional<smc::Subnets> own =
      services().subnets(common_.session.net->local_address().unmapped());
  if (!own) return std::nullopt;
  common_.path.vlan = own->vlan;
  return smc::OfferV1{gid, own->area};
}

void OutboundHandshake::handle_accept(TimePoint now) {
  if (behind_) {
    common_.session.note("another process of this proxy made the Proposal");
    return decline(common_, FallbackReason::kDraining, now);
  }
  common_.session.report.set_phase("clc_accept");
  const wire::AcceptConfirm& accept = handshake().answer();
  const smc::Judgement<smc::Terms> terms = smc::judge_accept(accept, proposal_);
  if (!terms) return decline(common_, terms.error(), now);
  common_.terms = *terms;
  if (terms->version == 1) common_.path.port.gid = proposal_.v1_gid;
  if (!choose_slot_of_server(accept.gid)) {
    const bool lacks_network = common_.path.slot != nullptr && !common_.path.slot->in_network();
    return decline(common_, lacks_network ? FallbackReason::kNoPnet : FallbackReason::kNoRoute,
                   now);
  }
  const PeerKey key = peer_key(common_, smc::GroupRole::kClient, accept.peer_id, accept.mac);
  accept.first_contact ? make_first_contact(key, now) : join_named_link(key, now);
}

// The server may choose another device than the one whose GID was sent: the device of the same
// node.
bool OutboundHandshake::choose_slot_of_server(const Gid& gid) {
  const DeviceSlot* offered = common_.path.slot;
  common_.path.slot = services().devices.slot_of_server(gid, common_.path.slot);
  common_.path.peer_gid = gid;
  if (common_.path.slot == nullptr) return false;
  if (common_.path.slot == offered) return true;
  Place at = place(common_);
  at.peer_gid = gid;
  const std::optional<rdma::Port> port = common_.path.slot->choose_port(at);
  if (port) common_.path.port = *port;
  return port.has_value();
}

// As in Linux: the server sees a gateway where our route has none. The queue pair would then bypass
// the network that the server expects. In the opposite case the server's view counts.
bool OutboundHandshake::gateway_disputed(const wire::AcceptConfirm& accept) const {
  if (!accept.first_contact_v2 || accept.first_contact_v2->direct) return false;
  return common_.path.slot->reachability().direct(common_.path.port.gid, accept.gid) == true;
}

void OutboundHandshake::make_first_contact(const PeerKey& key, TimePoint now) {
  const wire::AcceptConfirm& accept = handshake().answer();
  if (gateway_disputed(accept)) return decline(common_, FallbackReason::kIndirectMismatch, now);
  common_.session.note("first contact: a new link group");
  const Result<Group*> made = create_group(common_, key);
  if (!made)
    return decline(common_, reason_for(common_, made.error(), FallbackReason::kQueuePairNotReady),
                   now);
  Group& group = **made;
  if (accept.first_contact_v2) group.report().set_peer_host(accept.first_contact_v2->host_name);
  const Result<void> joined =
      common_.membership.join(group, 0, sizes_beside(accept), true, common_.session.host, now);
  if (!joined) {
    const FallbackReason reason = reason_for(common_, joined.error(), FallbackReason::kMemory);
    group.handle_link_failure(0, "no memory for the first connection", now);
    return decline(common_, reason, now);
  }
  common_.membership.name_peer_rmb(accept);
  const wire::AcceptConfirm confirm = confirm_for(accept);
  const Result<void> connected =
      group.connect_first_link({accept.gid, accept.mac, accept.queue_pair, accept.first_psn,
                                confirm.mtu, is_direct(confirm)});
  if (!connected) {
    common_.session.note(connected.error().what);
    return decline(common_, fallback_from_connect(connected.error()), now);
  }
  group.start_first_contact(now);
  common_.session.report.set_phase("confirm_link");
  handshake().send_confirm(confirm);
  handshake().await_link(now);
  wait_for_peer(common_);
}

void OutboundHandshake::join_named_link(const PeerKey& key, TimePoint now) {
  const wire::AcceptConfirm& accept = handshake().answer();
  const PeerTable& peers = services().groups.peers();
  const std::optional<LinkPlace> named = peers.by_link(key, accept.queue_pair);
  if (!named) {
    if (peers.knows(key)) {
      // On "out of sync", a Linux server would drop the group with all its connections.
      common_.session.note("the peer named a link that the group does not have");
      return decline(common_, FallbackReason::kLinkNotFound, now);
    }
    common_.session.note("the peer named a link group that we do not have");
    return decline(common_, FallbackReason::kSyncError, now, true);
  }
  Group& group = *named->group;
  common_.terms = group.protocol().terms();
  // The link may have failed while the Accept was in flight.
  const smc::LinkSet& links = group.protocol().links();
  const smc::LinkIndex link = links.active(named->link) ? named->link : links.least_used();
  const Result<void> joined =
      common_.membership.join(group, link, sizes_beside(accept), false, common_.session.host, now);
  if (!joined)
    return decline(common_, reason_for(common_, joined.error(), FallbackReason::kMemory), now);
  common_.membership.set_named_link(named->link);
  if (!await_announcement(common_, wait_end(now))) send_confirm(now);
}

void OutboundHandshake::send_confirm(TimePoint now) {
  if (const Result<void> ready = set_peer(common_); !ready)
    return decline(common_, reason_for(common_, ready.error(), FallbackReason::kMemoryRegistration),
                   now);
  common_.session.note("an existing link group is used");
  handshake().send_confirm(confirm_for(handshake().answer()));
  handshake().establish();
}

wire::AcceptConfirm OutboundHandshake::confirm_for(const wire::AcceptConfirm& accept) {
  wire::AcceptConfirm confirm = describe(common_, wire::ClcType::kConfirm);
  confirm.mtu = std::min(confirm.mtu, accept.mtu);
  return confirm;
}

// If memory is addressable, the client's element is not larger than the server's. So the server
// knows before its Accept what it may have to pay for, see RingSizes.
RingSizes OutboundHandshake::sizes_beside(const wire::AcceptConfirm& accept) const {
  const rdma::Device& device = common_.path.slot->device();
  RingSizes sizes{services().devices.buffer_sizes(device),
                  smc::element_bytes(accept.rmb_size_code)};
  if (!device.capabilities().remote_memory_addressable) return sizes;
  sizes.own.wanted_code = std::min(sizes.own.wanted_code, accept.rmb_size_code);
  sizes.own.least_code = std::min(sizes.own.least_code, sizes.own.wanted_code);
  return sizes;
}

// The stream is unusable, but no byte of the application has been lost: a new stream, plain TCP
// from the start, carries them.
StageResult OutboundHandshake::end_in_failure(TimePoint now) {
  const smc::Handshake::Outcome& outcome = handshake().outcome();
  if (common_.framed) {
    common_.session.report.frames_refused(common_.session.peer(), outcome.detail);
    return fail(common_, "the peer broke the rules of frames");
  }
  common_.session.note("the handshake failed; connecting again without SMC");
  FallbackCause cause = cause_of(common_, outcome);
  common_.membership.abort_first_contact(now);
  common_.membership.leave(now, true);
  common_.session.net->reset_on_close();
  common_.session.net.reset();
  return UseStage{
      make_stage<OutboundDial>(common_.session, std::move(common_.permit), std::move(cause))};
}

StageResult OutboundHandshake::end_in_tcp(TimePoint now) {
  UseTcp tcp = use_tcp(common_, end_declined(common_, now));
  if (!declined_for_ || declined_for_->device.empty()) return tcp;
  // An earlier handshake has failed, and this one only had to decline.
  tcp.cause.device = declined_for_->device;
  tcp.cause.pnet = declined_for_->pnet;
  return tcp;
}

// The peer waits as long for an answer. Without frames it can connect again. After a hand-over it
// cannot: a Decline must arrive in time, and the connection becomes TCP.
TimePoint OutboundHandshake::wait_end(TimePoint now) const {
  const Duration patience = services().config.smc.handshake_timeout;
  return common_.framed ? now + patience / 2 : now + patience;
}

}  // namespace fairlead::relay
