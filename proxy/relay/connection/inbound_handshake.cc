#include "relay/connection/inbound_handshake.h"

#include <algorithm>
#include <array>

#include "base/log.h"
#include "relay/connection/dial_stage.h"
#include "relay/connection/frames_stage.h"
#include "wire/frame.h"

namespace fairlead::relay {

InboundHandshake::InboundHandshake(SessionResources& session, First first, bool assumed)
    : HandshakeStage(session, HandshakePermit(session.services, session.number), nullptr),
      frames_possible_(first == First::kFramesOrProposal),
      assumed_(assumed) {
  const Duration timeout = session.services.config.smc.handshake_timeout;
  // A peer that has seen our option sends CLC first, whatever we want to do: it must be answered.
  await_proposal(assumed ? std::min(kClcDetectionTimeout, timeout) : timeout);
}

InboundHandshake::InboundHandshake(SessionResources& session, std::unique_ptr<FramedRelay> framed)
    : HandshakeStage(session, HandshakePermit(session.services, session.number),
                     std::move(framed)) {
  await_proposal(session.services.config.smc.handshake_timeout);
}

InboundHandshake::InboundHandshake(SessionResources& session, std::unique_ptr<FramedRelay> framed,
                                   BehindAccept)
    : HandshakeStage(session, HandshakePermit(session.services, session.number),
                     std::move(framed)) {
  accept_sent_ = behind_accept_ = true;
  exchange_.begin(smc::Handshake::behind_accept(services().offer.peer_id, session_.now(),
                                                services().config.smc.handshake_timeout));
  session_.report.set_phase("clc_confirm");
  arm_timer();
}

void InboundHandshake::await_proposal(Duration timeout) {
  exchange_.begin(smc::Handshake::server(services().offer.peer_id, session_.now(), timeout));
  session_.report.set_phase("clc_proposal");
  arm_timer();
}

StageResult InboundHandshake::begin(TimePoint now) {
  if (way_found_) answer_proposal(now);
  return run(now);
}

std::optional<StageResult> InboundHandshake::judge_unread(TimePoint now) {
  if (!frames_possible_) return std::nullopt;
  std::vector<std::byte>& unread = exchange_.unread();
  const auto begins_with = [&unread](const auto& preface) {
    const std::size_t seen = std::min(unread.size(), preface.size());
    return std::equal(unread.begin(), unread.begin() + static_cast<std::ptrdiff_t>(seen),
                      preface.begin());
  };
  while (begins_with(wire::kFramePreface) || begins_with(wire::kWindowsPreface)) {
    if (unread.size() >= wire::kFramePreface.size()) {
      // Frames cannot be declined.
      if (!session_.memory.begin_frames(smc::Deferral::first_window_bytes(windows_in(unread))))
        return session_.refuse_for_memory();
      return UseStage{std::make_unique<InboundDial>(session_, std::move(unread))};
    }
    if (std::optional<StageResult> result = fetch(now)) return result;
  }
  frames_possible_ = false;
  return std::nullopt;
}

StageResult InboundHandshake::handle_message(TimePoint now) {
  return accept_sent_ ? handle_confirm(now) : handle_proposal(now);
}

StageResult InboundHandshake::handle_proposal(TimePoint now) {
  const auto refuse = [&](FallbackReason reason) {
    decline(reason, now);
    return Stay{};
  };
  const wire::Proposal& proposal = handshake().proposal();
  const config::Smc& smc = services().config.smc;
  if (!smc.enabled) return refuse(FallbackReason::kDisabled);
  if (config::excluded(smc, session_.net->peer_address(), session_.destination.port()))
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
  if (!permit_.count(session_.net->peer_address().with_port(0)))
    return refuse(FallbackReason::kConnectionLimit);
  // What version 2 lacks says more than what version 1 lacks.
  std::optional<FallbackReason> no_way;
  if (reason && *reason != FallbackReason::kPeerNoSmc) no_way = reason;
  for (const std::optional<smc::Terms>& terms : possible) {
    if (!terms) continue;
    terms_ = *terms;
    const std::optional<FallbackReason> obstacle = find_way_to_client();
    if (!obstacle) {
      way_found_ = true;
      if (!session_.app) {
        timer_.cancel();
        return DialFirst{};
      }
      answer_proposal(now);
      return Stay{};
    }
    if (!no_way) no_way = obstacle;
  }
  return refuse(*no_way);
}

// A device that leads to the client in the version of the terms; otherwise the reason.
std::optional<FallbackReason> InboundHandshake::find_way_to_client() {
  const wire::Proposal& proposal = handshake().proposal();
  const std::uint8_t version = terms_.version;
  if (version == 1) {
    const std::optional<smc::Subnets> own =
        services().subnets(session_.net->local_address().unmapped());
    if (!own) return FallbackReason::kVlan;
    if (const auto reason =
            smc::judge_subnet(*proposal.ip_area, *own, session_.net->peer_address())) {
      session_.note("version 1: the client's subnet is not its own, or not ours");
      return reason;
    }
    path_.vlan = own->vlan;
  }
  bool other_vlan = false;
  for (const std::unique_ptr<DeviceSlot>& slot : services().devices.slots()) {
    Place at = place();
    at.peer_gid = slot->reachability().client_gid(proposal, version);
    if (!at.peer_gid) continue;
    const std::optional<rdma::Port> port = slot->choose_port(at);
    if (!port) {
      if (slot->withheld(at)) path_.withheld = true;
      continue;
    }
    if (version == 1 && !smc::vlans_agree(*at.peer_gid, port->gid)) {
      other_vlan = true;
      continue;
    }
    path_.slot = slot.get();
    path_.port = *port;
    path_.peer_gid = *at.peer_gid;
    // Without a release the number is fixed.
    if (terms_.release >= 1)
      terms_.max_links = std::min(terms_.max_links, services().devices.links_from(*slot, *port));
    return std::nullopt;
  }
  if (path_.withheld) {
    session_.note("the path to the client is encrypted: RNICs are not used");
    return FallbackReason::kIpsec;
  }
  if (other_vlan) {
    session_.note("version 1: the client's GID names another VLAN than ours");
    return FallbackReason::kVlan;
  }
  session_.note(
      "no local device reaches the client: it is on another node, or sees another "
      "directory");
  return services().devices.no_device_reason();
}

void InboundHandshake::answer_proposal(TimePoint now) {
  const wire::Proposal& proposal = handshake().proposal();
  const PeerKey key = peer_key(smc::GroupRole::kServer, proposal.peer_id, proposal.mac);
  PeerTable& peers = services().groups.peers();
  Group* group = peers.with_room(key);
  const bool first_contact = group == nullptr;
  smc::LinkIndex link = 0;
  if (first_contact) {
    if (Group* forming = peers.forming(key)) {
      if (!services().groups.wait_for(*forming, session_.host))
        return decline(FallbackReason::kConnectionLimit, now);
      return await_first_contact(now);
    }
    const Result<Group*> made = create_group(key);
    if (!made) return decline(reason_for(made.error(), FallbackReason::kQueuePairNotReady), now);
    group = *made;
    session_.note("first contact: a new link group");
  } else {
    session_.note("an existing link group is used");
    terms_ = group->protocol().terms();
    link = group->protocol().links().least_used();
  }
  const RingSizes sizes{services().devices.buffer_sizes(path_.slot->device()), std::nullopt};
  const Result<void> joined =
      membership_.join(*group, link, sizes, first_contact, session_.host, now);
  if (!joined) {
    const FallbackReason reason = reason_for(joined.error(), FallbackReason::kMemory);
    if (first_contact) group->handle_link_failure(0, "no memory for the first connection", now);
    return decline(reason, now);
  }
  if (!await_announcement(now)) send_accept(now);
}

void InboundHandshake::send_accept(TimePoint now) {
  membership_.set_named_link(membership_.relay().link);
  accept_ = describe(wire::ClcType::kAccept);
  accept_sent_ = true;
  session_.report.set_phase("clc_confirm");
  handshake().send_accept(accept_, now);
  arm_timer();
}

StageResult InboundHandshake::handle_confirm(TimePoint now) {
  const wire::AcceptConfirm& confirm = handshake().answer();
  if (behind_accept_) {
    session_.note("another process of this proxy made the Accept");
    // The client of a link that is in use has begun with its Confirm, and hears no Decline.
    if (!confirm.first_contact) return fail("the proxy was replaced during the handshake");
    decline(FallbackReason::kDraining, now);
    return Stay{};
  }
  const smc::Judgement<smc::Terms> terms = smc::judge_confirm(confirm, accept_, terms_);
  if (!terms || !membership_.joined()) {
    decline(terms ? FallbackReason::kNoActiveLink : terms.error(), now);
    return Stay{};
  }
  if (!confirm.first_contact) {
    // The client speaks of the link that it uses, when the one of the Accept has gone meanwhile.
    const auto named =
        membership_.group().transport().link_to(confirm.queue_pair, confirm.gid, confirm.mac);
    if (named) membership_.set_named_link(*named);
  }
  membership_.name_peer_rmb(confirm);
  if (confirm.first_contact) {
    connect_first_link(now);
    return Stay{};
  }
  // The client of a link that is in use has begun with its Confirm, and hears no Decline.
  if (!set_peer()) return fail("the client's memory cannot be used");
  handshake().establish();
  return Stay{};
}

void InboundHandshake::connect_first_link(TimePoint now) {
  const wire::AcceptConfirm& confirm = handshake().answer();
  Group& group = membership_.group();
  if (confirm.first_contact_v2) group.report().set_peer_host(confirm.first_contact_v2->host_name);
  const Result<void> connected =
      group.connect_first_link({path_.peer_gid, confirm.mac, confirm.queue_pair, confirm.first_psn,
                                std::min(confirm.mtu, accept_.mtu), is_direct(accept_)});
  if (!connected) {
    session_.note(connected.error().what);
    return decline(fallback_from_connect(connected.error()), now);
  }
  session_.report.set_phase("confirm_link");
  handshake().await_link(now);
  await_client_memory(now);
}

bool InboundHandshake::check_client_memory(TimePoint now) {
  if (!client_memory_since_ || handshake().state() != State::kAwaitingLink) return false;
  await_client_memory(now);
  return true;
}

// First contact. What a client says over TCP may overtake what it says over the device. It begins
// with its answer to CONFIRM_LINK, and hears no Decline afterwards. So its memory comes first.
void InboundHandshake::await_client_memory(TimePoint now) {
  const Result<void> ready = set_peer();
  // The group may have ended while it waited, and news of that may still be on its way.
  if (membership_.group().protocol().terminated() ||
      (!ready && ready.error().code == Errc::kWrongState))
    return decline(FallbackReason::kNoActiveLink, now);
  if (!ready && ready.error().code == Errc::kWouldBlock) {
    if (!client_memory_since_) client_memory_since_ = now;
    const Duration waited = now - *client_memory_since_;
    return timer_.set(now + std::max(kClientMemoryInterval, waited / 4));
  }
  client_memory_since_.reset();
  if (!ready) return decline(reason_for(ready.error(), FallbackReason::kMemoryRegistration), now);
  membership_.group().start_first_contact(now);
  arm_timer();
}

StageResult InboundHandshake::handle_stream_end(bool reset, TimePoint) {
  if (handshake().state() == State::kAwaitingLink) {
    // The client has all it wanted: its end may overtake its last LLC message. The link stands
    // or falls by itself, others wait for it, and what became of the connection its CDC says.
    clc_connection_reset_ = clc_connection_reset_ || reset;
    return Stay{};
  }
  if (!framed_ && handshake().proposal_awaited() && !reset) return pass_on({});
  return fail("the peer closed the connection during the handshake");
}

StageResult InboundHandshake::handle_failure(const smc::Handshake::Outcome& outcome,
                                             TimePoint now) {
  if (framed_) {
    session_.report.frames_refused(session_.peer(), outcome.detail);
    return fail("the peer broke the rules of frames");
  }
  const std::vector<std::byte>& unread = exchange_.unread();
  const bool silent = outcome.reason == FallbackReason::kHandshakeTimeout;
  const std::size_t seen = std::min<std::size_t>(unread.size(), 4);
  // Whatever the handshake still holds after a silence has begun like CLC.
  const bool clc = silent ? !handshake().unconsumed().empty()
                          : seen != 0 && wire::may_be_clc(std::span(unread).first(seen));
  // A client without a proxy in an assumed network, or one whose SYN/ACK lost our option on the
  // way: what it sent is for the application.
  if (!accept_sent_ && !clc && (!silent || assumed_)) return pass_on(outcome);
  services().stats.refused_of(RefusedFor::kHandshake).add();
  services().lines.write(LogLevel::kWarn, "smc.handshake", "refused", now, [&](LogEvent& line) {
    line.field("conn", session_.report.id())
        .field("peer", to_string(session_.net->peer_address()))
        .field("reason", fallback_info(outcome.reason).name)
        .field("phase", session_.report.phase())
        .field("detail", outcome.detail);
  });
  membership_.abort_first_contact(now);
  return End{"the handshake failed"};
}

// A peer that speaks no CLC, whatever its SYN said: what it sends is for the application.
StageResult InboundHandshake::pass_on(smc::Handshake::Outcome outcome) {
  outcome.reason = assumed_ ? FallbackReason::kPeerNotInjected : FallbackReason::kOptionStripped;
  session_.note("the peer speaks no CLC");
  return use_tcp(outcome);
}

StageResult InboundHandshake::use_tcp(const smc::Handshake::Outcome& outcome) {
  StageResult result = HandshakeStage::use_tcp(outcome);
  if (session_.app) return result;
  return UseStage{std::make_unique<InboundDial>(session_, std::move(permit_),
                                                std::move(std::get<UseTcp>(result)))};
}

// As for the client; see OutboundHandshake.
TimePoint InboundHandshake::wait_end(TimePoint now) const {
  const Duration patience = services().config.smc.handshake_timeout;
  return framed_ ? session_.report.setup_begin() + patience / 2 : now + patience;
}

}  // namespace fairlead::relay
