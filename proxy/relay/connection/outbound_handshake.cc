#include "relay/connection/outbound_handshake.h"

#include <algorithm>

#include "relay/connection/dial_stage.h"
#include "smc/cursor.h"

namespace fairlead::relay {

StageResult OutboundHandshake::begin(TimePoint now) {
  if (behind_) return resume(now);
  if (!declined_for_) declined_for_ = propose(now);
  if (declined_for_) {
    // A Decline instead of the Proposal.
    exchange_.begin(smc::Handshake::refusal(services().offer.peer_id, declined_for_->reason,
                                            declined_for_->detail));
    // The peer has still to hand over.
    if (framed_) timer_.set(now + services().config.smc.handshake_timeout);
  }
  return run(now);
}

StageResult OutboundHandshake::resume(TimePoint now) {
  const PeerId& own = services().offer.peer_id;
  const Duration patience = services().config.smc.handshake_timeout;
  if (behind_ == Behind::kDecline)
    exchange_.begin(smc::Handshake::behind_decline(own, FallbackReason::kDraining));
  else
    exchange_.begin(smc::Handshake::behind_proposal(own, now, patience));
  timer_.set(now + patience);
  return run(now);
}

// Why there is no Proposal, if there is none.
std::optional<FallbackCause> OutboundHandshake::propose(TimePoint now) {
  session_.report.set_phase("clc_proposal");
  const smc::LocalOffer& offer = services().offer;
  if (!offer.version_2) terms_.version = 1;
  const DeviceRegistry::Offered offered = services().devices.offer_towards(place());
  path_.withheld = offered.withheld;
  if (offered.withheld && offered.slot == nullptr) {
    session_.note("the path to the peer is encrypted: declined");
    return FallbackCause{.reason = FallbackReason::kIpsec,
                         .detail = "no other device reaches the peer"};
  }
  path_.slot = offered.slot;
  path_.port = offered.port;
  const std::optional<smc::OfferV1> v1 = offer_version_1();
  if (!offer.version_2 && !v1) {
    session_.note("version 1 alone is spoken here, and the connection has no subnet");
    return FallbackCause{.reason = FallbackReason::kConfigError, .detail = "no subnet"};
  }
  proposal_ = smc::make_proposal(offer, offered.port.gid, offered.port.mac, offered.vendor, v1);
  if (proposal_.v2) proposal_.v2->max_links = services().devices.links_offered();
  exchange_.begin(smc::Handshake::client(proposal_, offer.peer_id, now,
                                         services().config.smc.handshake_timeout));
  arm_timer();
  return std::nullopt;
}

// Beside version 2 only from a GID that peers of any make can use.
std::optional<smc::OfferV1> OutboundHandshake::offer_version_1() {
  if (!services().offer.version_1) return std::nullopt;
  Gid gid = path_.port.gid;
  if (services().offer.version_2) {
    if (path_.slot == nullptr) return std::nullopt;
    Place at = place();
    at.version = 1;
    const auto port = path_.slot->reachability().roce_v1_port(path_.port, at);
    if (!port) return std::nullopt;
    gid = port->gid;
  }
  const std::optional<smc::Subnets> own =
      services().subnets(session_.net->local_address().unmapped());
  if (!own) return std::nullopt;
  path_.vlan = own->vlan;
  return smc::OfferV1{gid, own->area};
}

StageResult OutboundHandshake::handle_message(TimePoint now) {
  if (behind_) {
    session_.note("another process of this proxy made the Proposal");
    decline(FallbackReason::kDraining, now);
    return Stay{};
  }
  session_.report.set_phase("clc_accept");
  const wire::AcceptConfirm& accept = handshake().answer();
  const smc::Judgement<smc::Terms> terms = smc::judge_accept(accept, proposal_);
  if (!terms) {
    decline(terms.error(), now);
    return Stay{};
  }
  terms_ = *terms;
  if (terms->version == 1) path_.port.gid = proposal_.v1_gid;
  if (!choose_slot_of_server(accept.gid)) {
    const bool lacks_network = path_.slot != nullptr && !path_.slot->in_network();
    decline(lacks_network ? FallbackReason::kNoPnet : FallbackReason::kNoRoute, now);
    return Stay{};
  }
  const PeerKey key = peer_key(smc::GroupRole::kClient, accept.peer_id, accept.mac);
  accept.first_contact ? make_first_contact(key, now) : join_named_link(key, now);
  return Stay{};
}

// The server may lead us to another device than the one whose GID we told: that of the same node.
bool OutboundHandshake::choose_slot_of_server(const Gid& gid) {
  const DeviceSlot* offered = path_.slot;
  path_.slot = services().devices.slot_of_server(gid, path_.slot);
  path_.peer_gid = gid;
  if (path_.slot == nullptr) return false;
  if (path_.slot == offered) return true;
  Place at = place();
  at.peer_gid = gid;
  const std::optional<rdma::Port> port = path_.slot->choose_port(at);
  if (port) path_.port = *port;
  return port.has_value();
}

// As in Linux: the server sees a gateway where our route has none. A queue pair would then send
// past the network that the server expects. The other way round the server's word counts.
bool OutboundHandshake::gateway_disputed(const wire::AcceptConfirm& accept) const {
  if (!accept.first_contact_v2 || accept.first_contact_v2->direct) return false;
  return path_.slot->reachability().direct(path_.port.gid, accept.gid) == true;
}

void OutboundHandshake::make_first_contact(const PeerKey& key, TimePoint now) {
  const wire::AcceptConfirm& accept = handshake().answer();
  if (gateway_disputed(accept)) return decline(FallbackReason::kIndirectMismatch, now);
  session_.note("first contact: a new link group");
  const Result<Group*> made = create_group(key);
  if (!made) return decline(reason_for(made.error(), FallbackReason::kQueuePairNotReady), now);
  Group& group = **made;
  if (accept.first_contact_v2) group.report().set_peer_host(accept.first_contact_v2->host_name);
  const Result<void> joined =
      membership_.join(group, 0, sizes_beside(accept), true, session_.host, now);
  if (!joined) {
    const FallbackReason reason = reason_for(joined.error(), FallbackReason::kMemory);
    group.handle_link_failure(0, "no memory for the first connection", now);
    return decline(reason, now);
  }
  membership_.name_peer_rmb(accept);
  const wire::AcceptConfirm confirm = confirm_for(accept);
  const Result<void> connected =
      group.connect_first_link({accept.gid, accept.mac, accept.queue_pair, accept.first_psn,
                                confirm.mtu, is_direct(confirm)});
  if (!connected) {
    session_.note(connected.error().what);
    return decline(fallback_from_connect(connected.error()), now);
  }
  group.start_first_contact(now);
  session_.report.set_phase("confirm_link");
  handshake().send_confirm(confirm);
  handshake().await_link(now);
  arm_timer();
}

void OutboundHandshake::join_named_link(const PeerKey& key, TimePoint now) {
  const wire::AcceptConfirm& accept = handshake().answer();
  const PeerTable& peers = services().groups.peers();
  const std::optional<LinkPlace> named = peers.by_link(key, accept.queue_pair);
  if (!named) {
    if (peers.knows(key)) {
      // Out of sync would cost a Linux server the group with all its connections.
      session_.note("the peer named a link that the group does not have");
      return decline(FallbackReason::kLinkNotFound, now);
    }
    session_.note("the peer named a link group that we do not have");
    return decline(FallbackReason::kSyncError, now, true);
  }
  Group& group = *named->group;
  terms_ = group.protocol().terms();
  // The link may have failed while the Accept was on its way.
  const smc::LinkSet& links = group.protocol().links();
  const smc::LinkIndex link = links.active(named->link) ? named->link : links.least_used();
  const Result<void> joined =
      membership_.join(group, link, sizes_beside(accept), false, session_.host, now);
  if (!joined) return decline(reason_for(joined.error(), FallbackReason::kMemory), now);
  membership_.set_named_link(named->link);
  if (!await_announcement(now)) handle_announced(now);
}

void OutboundHandshake::handle_announced(TimePoint now) {
  if (const Result<void> ready = set_peer(); !ready)
    return decline(reason_for(ready.error(), FallbackReason::kMemoryRegistration), now);
  session_.note("an existing link group is used");
  handshake().send_confirm(confirm_for(handshake().answer()));
  handshake().establish();
}

wire::AcceptConfirm OutboundHandshake::confirm_for(const wire::AcceptConfirm& accept) const {
  wire::AcceptConfirm confirm = describe(wire::ClcType::kConfirm);
  confirm.mtu = std::min(confirm.mtu, accept.mtu);
  return confirm;
}

// Where memory is addressable, the client's element is not larger than the server's: so the server
// knows before its Accept what it may have to pay for, see RingSizes.
RingSizes OutboundHandshake::sizes_beside(const wire::AcceptConfirm& accept) const {
  const rdma::Device& device = path_.slot->device();
  RingSizes sizes{services().devices.buffer_sizes(device),
                  smc::element_bytes(accept.rmb_size_code)};
  if (!device.capabilities().remote_memory_addressable) return sizes;
  sizes.own.wanted_code = std::min(sizes.own.wanted_code, accept.rmb_size_code);
  sizes.own.least_code = std::min(sizes.own.least_code, sizes.own.wanted_code);
  return sizes;
}

StageResult OutboundHandshake::handle_stream_end(bool, TimePoint) {
  return fail("the peer closed the connection during the handshake");
}

// The stream is spoilt, but no byte of the application has been lost: a new one, plain TCP from the
// start, carries them.
StageResult OutboundHandshake::handle_failure(const smc::Handshake::Outcome& outcome,
                                              TimePoint now) {
  if (framed_) {
    session_.report.frames_refused(session_.peer(), outcome.detail);
    return fail("the peer broke the rules of frames");
  }
  session_.note("the handshake failed; connecting again without SMC");
  FallbackCause cause = cause_of(outcome);
  membership_.abort_first_contact(now);
  membership_.leave(now, true);
  session_.end_lasting();
  session_.net->reset_on_close();
  session_.net.reset();
  return UseStage{std::make_unique<OutboundDial>(session_, std::move(permit_), std::move(cause))};
}

StageResult OutboundHandshake::use_tcp(const smc::Handshake::Outcome& outcome) {
  StageResult result = HandshakeStage::use_tcp(outcome);
  if (!declined_for_ || declined_for_->device.empty()) return result;
  // An earlier handshake has failed, and this one was only to decline.
  FallbackCause& cause = std::get<UseTcp>(result).cause;
  cause.device = declined_for_->device;
  cause.pnet = declined_for_->pnet;
  return result;
}

// The peer waits as long for an answer. It can connect again, but not behind a hand-over: there a
// Decline has to come first, and the connection is TCP.
TimePoint OutboundHandshake::wait_end(TimePoint now) const {
  const Duration patience = services().config.smc.handshake_timeout;
  return framed_ ? now + patience / 2 : now + patience;
}

}  // namespace fairlead::relay
