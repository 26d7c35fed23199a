#include "relay/connection/inbound_handshake.h"

#include <algorithm>
#include <array>

#include "base/log.h"
#include "relay/connection/dial_stage.h"
#include "relay/connection/frames_stage.h"
#include "wire/frame.h"

namespace fairlead::relay {

InboundHandshake::InboundHandshake(SessionResources& session, First first, bool assumed)
    : common_(session, HandshakePermit(session.services, session.number), nullptr),
      frames_possible_(first == First::kFramesOrProposal),
      assumed_(assumed) {
  const Duration timeout = session.services.config.smc.handshake_timeout;
  // A peer that has seen our option sends CLC first. It must be answered, whatever this side wants.
  await_proposal(assumed ? std::min(kClcDetectionTimeout, timeout) : timeout);
}

InboundHandshake::InboundHandshake(SessionResources& session, std::unique_ptr<FramedRelay> framed)
    : common_(session, HandshakePermit(session.services, session.number), std::move(framed)) {
  await_proposal(session.services.config.smc.handshake_timeout);
}

InboundHandshake::InboundHandshake(SessionResources& session, std::unique_ptr<FramedRelay> framed,
                                   BehindAccept)
    : common_(session, HandshakePermit(session.services, session.number), std::move(framed)) {
  common_.accept_sent = behind_accept_ = true;
  common_.exchange.begin(smc::Handshake::behind_accept(
      services().offer.peer_id, common_.session.now(), services().config.smc.handshake_timeout));
  common_.session.report.set_phase("clc_confirm");
}

void InboundHandshake::await_proposal(Duration timeout) {
  common_.exchange.begin(
      smc::Handshake::server(services().offer.peer_id, common_.session.now(), timeout));
  common_.session.report.set_phase("clc_proposal");
}

StageResult InboundHandshake::handle(Entered, TimePoint now) {
  if (way_found_)
    answer_proposal(now);
  else
    wait_for_peer(common_);
  return handle(Ready{}, now);
}

StageResult InboundHandshake::handle(Ready, TimePoint now) {
  if (frames_possible_ && awaits_peer(common_))
    if (std::optional<StageResult> result = judge_first_bytes()) return std::move(*result);
  for (;;) {
    switch (advance(common_, now)) {
      case HandshakeProgress::kNothing:
        return Stay{};
      case HandshakeProgress::kMessage: {
        StageResult result = handle_message(now);
        if (!std::holds_alternative<Stay>(result)) return result;
        break;
      }
      case HandshakeProgress::kEnd:
        return handle_stream_end(false);
      case HandshakeProgress::kReset:
        return handle_stream_end(true);
      case HandshakeProgress::kLost:
        return fail(common_, common_.lost_why);
      case HandshakeProgress::kEstablished:
        return use_smc(common_);
      case HandshakeProgress::kTcp:
        return end_in_tcp(end_declined(common_, now));
      case HandshakeProgress::kFailed:
        return end_in_failure(handshake().outcome(), now);
    }
  }
}

std::optional<StageResult> InboundHandshake::judge_first_bytes() {
  std::vector<std::byte>& unread = common_.exchange.unread();
  const auto begins_with = [&unread](const auto& preface) {
    const std::size_t seen = std::min(unread.size(), preface.size());
    return std::equal(unread.begin(), unread.begin() + static_cast<std::ptrdiff_t>(seen),
                      preface.begin());
  };
  while (begins_with(wire::kFramePreface) || begins_with(wire::kWindowsPreface)) {
    if (unread.size() >= wire::kFramePreface.size()) {
      // Frames cannot be declined.
      if (!common_.session.memory.begin_frames(
              smc::Deferral::first_window_bytes(windows_in(unread))))
        return common_.session.refuse_for_memory();
      return UseStage{make_stage<InboundDial>(common_.session, std::move(unread))};
    }
    if (const std::optional<HandshakeProgress> progress = fetch(common_)) {
      if (*progress == HandshakeProgress::kNothing) return Stay{};
      return handle_stream_end(*progress == HandshakeProgress::kReset);
    }
  }
  frames_possible_ = false;
  return std::nullopt;
}

StageResult InboundHandshake::handle(DeadlineDue, TimePoint now) {
  if (std::optional<StageResult> result = handle_wait_deadline(common_, now))
    return std::move(*result);
  if (client_memory_since_ && handshake().state() == smc::Handshake::State::kAwaitingLink) {
    await_client_memory(now);
    return Stay{};
  }
  wait_for_peer(common_);  // after the wait for the link comes that for a Decline of the peer
  common_.session.mark_ready();
  return Stay{};
}

StageResult InboundHandshake::handle(GroupConfirmed, TimePoint now) {
  // The group was confirmed before this connection came, but the event arrives only now.
  if (common_.wait == HandshakeWait::kAnnouncement) return Stay{};
  if (common_.wait == HandshakeWait::kFirstContact) {
    common_.wait = HandshakeWait::kNone;
    common_.session.note("the first contact of another connection is done");
    answer_proposal(now);
  } else if (handshake().state() == smc::Handshake::State::kAwaitingLink) {
    handshake().link_confirmed();
  }
  common_.session.mark_ready();
  return Stay{};
}

StageResult InboundHandshake::handle(GroupLost, TimePoint now) {
  if (common_.wait == HandshakeWait::kNone) return lose_group(common_, now);
  common_.membership.leave(now, true);
  common_.wait = HandshakeWait::kNone;
  answer_proposal(now);  // this connection makes the first contact instead
  common_.session.mark_ready();
  return Stay{};
}

StageResult InboundHandshake::handle(RmbAnnounced, TimePoint now) {
  if (!announcement_over(common_, now)) return Stay{};
  send_accept(now);
  common_.session.mark_ready();
  return Stay{};
}

StageResult InboundHandshake::handle_message(TimePoint now) {
  return common_.accept_sent ? handle_confirm(now) : handle_proposal(now);
}

StageResult InboundHandshake::handle_proposal(TimePoint now) {
  const auto refuse = [&](FallbackReason reason) {
    decline(common_, reason, now);
    return Stay{};
  };
  const wire::Proposal& proposal = handshake().proposal();
  const config::Smc& smc = services().config.smc;
  if (!smc.enabled) return refuse(FallbackReason::kDisabled);
  if (config::excluded(smc, common_.session.net->peer_address(),
                       common_.session.destination.port()))
    return refuse(FallbackReason::kPolicyExcluded);
  if (services().admission.draining()) return refuse(FallbackReason::kDraining);
  std::optional<FallbackReason> reason;
  std::array<std::optional<smc::Terms>, smc::kVersions.size()> possible;
  for (std::size_t i = 0; i < possible.size(); ++i) {
    const smc::Judgement<smc::Terms> terms =
        smc::judge_proposal(proposal, services().offer, smc::kVersions[i]);
    if (terms)
      possible[i] = *terms;
    else if (!reason || *reason == FallbackReason::kPeerNoSmc)
      reason = terms.error();
  }
  const auto is_possible = [](const auto& terms) { return terms.has_value(); };
  if (std::none_of(possible.begin(), possible.end(), is_possible)) return refuse(*reason);
  if (!common_.permit.count(common_.session.net->peer_address().with_port(0)))
    return refuse(FallbackReason::kConnectionLimit);
  // An obstacle in version 2 is more informative than one in version 1.
  std::optional<FallbackReason> no_way;
  if (reason && *reason != FallbackReason::kPeerNoSmc) no_way = reason;
  for (const std::optional<smc::Terms>& terms : possible) {
    if (!terms) continue;
    common_.terms = *terms;
    const std::optional<FallbackReason> obstacle = find_way_to_client();
    if (!obstacle) {
      way_found_ = true;
      if (!common_.session.app) return DialFirst{};
      answer_proposal(now);
      return Stay{};
    }
    if (!no_way) no_way = obstacle;
  }
  return refuse(*no_way);
}

// Finds a device that reaches the client in the version of the terms. Otherwise returns the reason.
std::optional<FallbackReason> InboundHandshake::find_way_to_client() {
  const wire::Proposal& proposal = handshake().proposal();
  const std::uint8_t version = common_.terms.version;
  if (version == 1) {
    const std::optional<smc::Subnets> own =
        services().subnets(common_.session.net->local_address().unmapped());
    if (!own) return FallbackReason::kVlan;
    if (const auto reason =
            smc::judge_subnet(*proposal.ip_area, *own, common_.session.net->peer_address())) {
      common_.session.note("version 1: the client's subnet is not its own, or not ours");
      return reason;
    }
    common_.path.vlan = own->vlan;
  }
  bool other_vlan = false;
  for (const std::unique_ptr<DeviceSlot>& slot : services().devices.slots()) {
    Place at = place(common_);
    at.peer_gid = slot->reachability().client_gid(proposal, version);
    if (!at.peer_gid) continue;
    const std::optional<rdma::Port> port = slot->choose_port(at);
    if (!port) {
      if (slot->withheld(at)) common_.path.withheld = true;
      continue;
    }
    if (version == 1 && !smc::vlans_agree(*at.peer_gid, port->gid)) {
      other_vlan = true;
      continue;
    }
    common_.path.slot = slot.get();
    common_.path.port = *port;
    common_.path.peer_gid = *at.peer_gid;
    // Without a release the number of links is fixed.
    if (common_.terms.release >= 1)
      common_.terms.max_links =
          std::min(common_.terms.max_links, services().devices.links_from(*slot, *port));
    return std::nullopt;
  }
  if (common_.path.withheld) {
    common_.session.note("the path to the client is encrypted: RNICs are not used");
    return FallbackReason::kIpsec;
  }
  if (other_vlan) {
    common_.session.note("version 1: the client's GID names another VLAN than ours");
    return FallbackReason::kVlan;
  }
  common_.session.note(
      "no local device reaches the client: it is on another node, or sees another "
      "directory");
  return services().devices.no_device_reason();
}

void InboundHandshake::answer_proposal(TimePoint now) {
  const wire::Proposal& proposal = handshake().proposal();
  const PeerKey key = peer_key(common_, smc::GroupRole::kServer, proposal.peer_id, proposal.mac);
  PeerTable& peers = services().groups.peers();
  Group* group = peers.with_room(key);
  const bool first_contact = group == nullptr;
  smc::LinkIndex link = 0;
  if (first_contact) {
    if (Group* forming = peers.forming(key)) {
      if (!services().groups.wait_for(*forming, common_.session.host))
        return decline(common_, FallbackReason::kConnectionLimit, now);
      return await_first_contact(now);
    }
    const Result<Group*> made = create_group(common_, key);
    if (!made)
      return decline(common_, reason_for(common_, made.error(), FallbackReason::kQueuePairNotReady),
                     now);
    group = *made;
    common_.session.note("first contact: a new link group");
  } else {
    common_.session.note("an existing link group is used");
    common_.terms = group->protocol().terms();
    link = group->protocol().links().least_used();
  }
  const RingSizes sizes{services().devices.buffer_sizes(common_.path.slot->device()), std::nullopt};
  const Result<void> joined =
      common_.membership.join(*group, link, sizes, first_contact, common_.session.host, now);
  if (!joined) {
    const FallbackReason reason = reason_for(common_, joined.error(), FallbackReason::kMemory);
    if (first_contact) group->handle_link_failure(0, "no memory for the first connection", now);
    return decline(common_, reason, now);
  }
  if (!await_announcement(common_, wait_end(now))) send_accept(now);
}

void InboundHandshake::await_first_contact(TimePoint now) {
  common_.session.note("waiting for the first contact of another connection");
  common_.wait = HandshakeWait::kFirstContact;
  wait_until(common_, wait_end(now));
}

void InboundHandshake::send_accept(TimePoint now) {
  common_.membership.set_named_link(common_.membership.relay().link());
  accept_ = describe(common_, wire::ClcType::kAccept);
  common_.accept_sent = true;
  common_.session.report.set_phase("clc_confirm");
  handshake().send_accept(accept_, now);
  wait_for_peer(common_);
}

StageResult InboundHandshake::handle_confirm(TimePoint now) {
  const wire::AcceptConfirm& confirm = handshake().answer();
  if (behind_accept_) {
    common_.session.note("another process of this proxy made the Accept");
    // If the link is in use already, the client has begun with its Confirm and accepts no Decline.
    if (!confirm.first_contact) return fail(common_, "the proxy was replaced during the handshake");
    decline(common_, FallbackReason::kDraining, now);
    return Stay{};
  }
  const smc::Judgement<smc::Terms> terms = smc::judge_confirm(confirm, accept_, common_.terms);
  if (!terms || !common_.membership.joined()) {
    decline(common_, terms ? FallbackReason::kNoActiveLink : terms.error(), now);
    return Stay{};
  }
  if (!confirm.first_contact) {
    // The client names the link that it uses if the link of the Accept has gone meanwhile.
    const auto named = common_.membership.group().transport().link_to(confirm.queue_pair,
                                                                      confirm.gid, confirm.mac);
    if (named) common_.membership.set_named_link(*named);
  }
  common_.membership.name_peer_rmb(confirm);
  if (confirm.first_contact) {
    connect_first_link(now);
    return Stay{};
  }
  // If the link is in use already, the client has begun with its Confirm and accepts no Decline.
  if (!set_peer(common_)) return fail(common_, "the client's memory cannot be used");
  handshake().establish();
  return Stay{};
}

void InboundHandshake::connect_first_link(TimePoint now) {
  const wire::AcceptConfirm& confirm = handshake().answer();
  Group& group = common_.membership.group();
  if (confirm.first_contact_v2) group.report().set_peer_host(confirm.first_contact_v2->host_name);
  const Result<void> connected = group.connect_first_link(
      {common_.path.peer_gid, confirm.mac, confirm.queue_pair, confirm.first_psn,
       std::min(confirm.mtu, accept_.mtu), is_direct(accept_)});
  if (!connected) {
    common_.session.note(connected.error().what);
    return decline(common_, fallback_from_connect(connected.error()), now);
  }
  common_.session.report.set_phase("confirm_link");
  handshake().await_link(now);
  await_client_memory(now);
}

// First contact: what a client sends over TCP may overtake what it sends over the device. It begins
// with its answer to CONFIRM_LINK, and accepts no Decline afterwards. So its memory comes first.
void InboundHandshake::await_client_memory(TimePoint now) {
  const Result<void> ready = set_peer(common_);
  // The group may have ended meanwhile, and its event may not have arrived yet.
  if (common_.membership.group().protocol().terminated() ||
      (!ready && ready.error().code == Errc::kWrongState))
    return decline(common_, FallbackReason::kNoActiveLink, now);
  if (!ready && ready.error().code == Errc::kWouldBlock) {
    if (!client_memory_since_) client_memory_since_ = now;
    const Duration waited = now - *client_memory_since_;
    return wait_until(common_, now + std::max(kClientMemoryInterval, waited / 4));
  }
  client_memory_since_.reset();
  if (!ready)
    return decline(common_, reason_for(common_, ready.error(), FallbackReason::kMemoryRegistration),
                   now);
  common_.membership.group().start_first_contact(now);
  wait_for_peer(common_);
}

StageResult InboundHandshake::handle_stream_end(bool reset) {
  if (handshake().state() == smc::Handshake::State::kAwaitingLink) {
    // The client has all it wanted: its end may overtake its last LLC message. The link is tested
    // on its own, others wait for it, and CDC messages tell what became of the connection.
    common_.clc_connection_reset = common_.clc_connection_reset || reset;
    return Stay{};
  }
  if (!common_.framed && handshake().proposal_awaited() && !reset) return pass_on({});
  return fail(common_, "the peer closed the connection during the handshake");
}

StageResult InboundHandshake::end_in_failure(const smc::Handshake::Outcome& outcome,
                                             TimePoint now) {
  if (common_.framed) {
    common_.session.report.frames_refused(common_.session.peer(), outcome.detail);
    return fail(common_, "the peer broke the rules of frames");
  }
  const std::vector<std::byte>& unread = common_.exchange.unread();
  const bool silent = outcome.reason == FallbackReason::kHandshakeTimeout;
  const std::size_t seen = std::min<std::size_t>(unread.size(), 4);
  // After a silence, bytes that the handshake still holds have begun like CLC.
  const bool clc = silent ? !handshake().unconsumed().empty()
                          : seen != 0 && wire::may_be_clc(std::span(unread).first(seen));
  // The client has no proxy in an assumed network, or its SYN/ACK lost our option on the way. What
  // it sent is for the application.
  if (!common_.accept_sent && !clc && (!silent || assumed_)) return pass_on(outcome);
  services().stats.refused[RefusedFor::kHandshake].add();
  services().lines.write(LogLevel::kWarn, "smc.handshake", "refused", now, [&](LogEvent& line) {
    line.field("conn", common_.session.report.id())
        .field("peer", to_string(common_.session.net->peer_address()))
        .field("reason", fallback_info(outcome.reason).name)
        .field("phase", common_.session.report.phase())
        .field("detail", outcome.detail);
  });
  common_.membership.abort_first_contact(now);
  return End{"the handshake failed"};
}

// The peer speaks no CLC, whatever its SYN said. What it sends is for the application.
StageResult InboundHandshake::pass_on(smc::Handshake::Outcome outcome) {
  outcome.reason = assumed_ ? FallbackReason::kPeerNotInjected : FallbackReason::kOptionStripped;
  common_.session.note("the peer speaks no CLC");
  return end_in_tcp(outcome);
}

StageResult InboundHandshake::end_in_tcp(const smc::Handshake::Outcome& outcome) {
  UseTcp tcp = use_tcp(common_, outcome);
  if (common_.session.app) return tcp;
  return UseStage{
      make_stage<InboundDial>(common_.session, std::move(common_.permit), std::move(tcp))};
}

// As on the client, see OutboundHandshake.
TimePoint InboundHandshake::wait_end(TimePoint now) const {
  const Duration patience = services().config.smc.handshake_timeout;
  return common_.framed ? common_.session.report.setup_begin() + patience / 2 : now + patience;
}

}  // namespace fairlead::relay
