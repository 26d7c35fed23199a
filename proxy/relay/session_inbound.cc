// The inbound side: connections of the world to our application. The server of the handshake. The
// application is dialled before the Accept, so that a closed port is still a refused connection.

#include <algorithm>
#include <array>

#include "base/log.h"

#include "relay/session.h"

namespace fairlead::relay {

void Session::start_inbound(TimePoint now) {
  const config::Config& config = services_.config;
  const SocketAddress peer = net_->peer_address();
  const bpf::Announced announced = services_.network.option_requested(*net_);
  const bool requested = announced != bpf::Announced::kNothing;
  setup_->assumed = !requested && config.smc.enabled && config::assumed(config.smc, peer);
  if (!requested && !setup_->assumed) {
    setup_->plain_reason = !config.smc.enabled                  ? FallbackReason::kDisabled
                           : config::excluded(config.smc, peer) ? FallbackReason::kPolicyExcluded
                           : !services_.network.option_available()
                               ? FallbackReason::kNoOptionProgram
                               : FallbackReason::kPeerNotInjected;
    note("the SYN carried no SMC option");
    return dial_app(now);
  }
  note(requested ? "the SYN carried the SMC option" : "the peer is assumed to speak SMC");
  setup_->frames_awaited = announced == bpf::Announced::kFrames;
  if (!setup_->frames_awaited) return await_proposal(now);
  // Frames cannot be declined, so a client that will send them needs the memory at once.
  if (!memory_.begin_frames()) return refuse_for_memory();
  dial_app(now);
}

void Session::await_proposal(TimePoint now) {
  const config::Config& config = services_.config;
  // A peer that has seen our option sends CLC first, whatever we want to do: it must be answered.
  setup_->handshake.emplace(
      smc::Handshake::server(services_.offer.peer_id, now,
                             setup_->assumed ? std::min(kSniffWait, config.smc.handshake_timeout)
                                             : config.smc.handshake_timeout));
  setup_->phase = "clc_proposal";
  phase_ = Phase::kHandshake;
  arm_timer();
  run_handshake(now);
}

void Session::dial_app(TimePoint now) {
  phase_ = Phase::kDialing;
  Result<ApplicationLeg> leg =
      services_.network.dial_application(destination_, net_->peer_address());
  if (!leg) return dial_failed(leg.error().system);
  app_ = std::move(leg->stream);
  client_slot_ = std::move(leg->slot);
  client_address_ = leg->client_address;
  services_.stats.client_address_of(leg->client_address).add();
  note(client_address_info(leg->client_address).step);
  app_->set_handler(this);
  setup_->timer.set(now + services_.config.limits.dial_timeout);
  // On the same host a connection is established by connect(2) itself, and no event needs to tell.
  if (app_->connected()) app_connected(now);
}

void Session::app_connected(TimePoint now) {
  setup_->timer.cancel();
  if (!memory_.bound_application(*app_)) return refuse_for_memory();
  if (setup_->plain_reason) {
    const smc::Handshake::Outcome outcome = setup_->outcome;
    return become_tcp(outcome.side, *setup_->plain_reason, outcome.peer_code, outcome.detail, now);
  }
  if (setup_->frames_awaited) return await_proposal(now);
  phase_ = Phase::kHandshake;
  answer_proposal(now);
  if (phase_ == Phase::kHandshake) run_handshake(now);
}

void Session::handle_proposal(TimePoint now) {
  const wire::Proposal& proposal = setup_->handshake->proposal();
  const config::Config& config = services_.config;
  if (!config.smc.enabled) return decline(FallbackReason::kDisabled, false, now);
  if (config::excluded(config.smc, net_->peer_address()))
    return decline(FallbackReason::kPolicyExcluded, false, now);
  if (services_.admission.draining()) return decline(FallbackReason::kDraining, false, now);
  std::optional<FallbackReason> reason;
  std::array<std::optional<smc::Terms>, smc::kVersions.size()> possible;
  for (std::size_t i = 0; i < possible.size(); ++i) {
    const smc::Judgement<smc::Terms> terms =
        smc::judge_proposal(proposal, services_.offer, smc::kVersions[i]);
    if (terms)
      possible[i] = *terms;
    else if (!reason || *reason == FallbackReason::kPeerNoSmc)
      reason = terms.error();
  }
  const auto is_possible = [](const auto& terms) { return terms.has_value(); };
  if (std::none_of(possible.begin(), possible.end(), is_possible))
    return decline(*reason, false, now);
  const SocketAddress client = net_->peer_address().with_port(0);
  if (!setup_->counted && (setup_->counted = services_.admission.begin_handshake(client)))
    setup_->counted_client = client;
  if (!setup_->counted) return decline(FallbackReason::kConnectionLimit, false, now);
  // What version 2 lacks says more than what version 1 lacks.
  std::optional<FallbackReason> no_way;
  if (reason && *reason != FallbackReason::kPeerNoSmc) no_way = reason;
  for (const std::optional<smc::Terms>& terms : possible) {
    if (!terms) continue;
    setup_->terms = *terms;
    const std::optional<FallbackReason> obstacle = find_way_to_client();
    if (!obstacle) return app_ == nullptr ? dial_app(now) : answer_proposal(now);
    if (!no_way) no_way = obstacle;
  }
  decline(*no_way, false, now);
}

// A device that leads to the client in the version of the terms; otherwise the reason.
std::optional<FallbackReason> Session::find_way_to_client() {
  const wire::Proposal& proposal = setup_->handshake->proposal();
  const std::uint8_t version = setup_->terms.version;
  if (version == 1) {
    const std::optional<smc::Subnets> own = services_.subnets(net_->local_address().unmapped());
    if (!own) return FallbackReason::kVlan;
    if (const auto reason = smc::judge_subnet(*proposal.ip_area, *own, net_->peer_address())) {
      note("version 1: the client's subnet is not its own, or not ours");
      return reason;
    }
    setup_->vlan = own->vlan;
  }
  bool other_vlan = false;
  for (const std::unique_ptr<DeviceSlot>& slot : services_.devices.slots()) {
    const std::optional<Gid> gid = slot->reachability().client_gid(proposal, version);
    const std::optional<rdma::Port> port = gid ? slot->choose_port(place(gid)) : std::nullopt;
    if (gid && !port && slot->withheld(place(gid))) setup_->withheld = true;
    if (!port) continue;
    if (version == 1 && !smc::vlans_agree(*gid, port->gid)) {
      other_vlan = true;
      continue;
    }
    setup_->slot = slot.get();
    setup_->port = *port;
    setup_->peer_gid = *gid;
    // Without a release the number is fixed.
    if (setup_->terms.release >= 1)
      setup_->terms.max_links =
          std::min(setup_->terms.max_links, services_.devices.links_from(*slot, *port));
    return std::nullopt;
  }
  if (setup_->withheld) {
    note("the path to the client is encrypted: RNICs are not used");
    return FallbackReason::kIpsec;
  }
  if (other_vlan) {
    note("version 1: the client's GID names another VLAN than ours");
    return FallbackReason::kVlan;
  }
  note("no local device reaches the client: it is on another node, or sees another directory");
  return services_.devices.no_device_reason();
}

void Session::answer_proposal(TimePoint now) {
  const wire::Proposal& proposal = setup_->handshake->proposal();
  const PeerKey key = peer_key(smc::GroupRole::kServer, proposal.peer_id, proposal.mac);
  PeerTable& peers = services_.groups.peers();
  Group* group = peers.with_room(key);
  const bool first_contact = group == nullptr;
  if (first_contact) {
    if (Group* forming = peers.forming(key)) {
      if (!services_.groups.wait_for(*forming, *this))
        return decline(FallbackReason::kConnectionLimit, false, now);
      note("waiting for the first contact of another connection");
      phase_ = Phase::kQueued;
      setup_->timer.set(queue_end(now));
      return;
    }
    const Result<Group*> made = make_group(key);
    if (!made)
      return decline(reason_for(made.error(), FallbackReason::kQueuePairNotReady), false, now);
    group = *made;
    note("first contact: a new link group");
  } else {
    note("an existing link group is used");
    setup_->terms = group->protocol().terms();
  }
  setup_->forms_group = first_contact;
  const Result<void> seated =
      take_seat(*group, first_contact ? smc::LinkIndex{0} : group->protocol().links().least_used(),
                {services_.devices.buffer_sizes(setup_->slot->device()), std::nullopt});
  if (!seated) {
    const FallbackReason reason = reason_for(seated.error(), FallbackReason::kMemory);
    if (first_contact) group->handle_link_failure(0, "no memory for the first connection", now);
    return decline(reason, false, now);
  }
  if (!await_told(now)) send_accept(now);
}

void Session::send_accept(TimePoint now) {
  set_named_link(smc_->link);
  setup_->accept = describe_seat(wire::ClcType::kAccept, setup_->forms_group);
  setup_->phase = "clc_confirm";
  setup_->handshake->send_accept(setup_->accept, now);
  arm_timer();
}

void Session::handle_confirm(TimePoint now) {
  const wire::AcceptConfirm& confirm = setup_->handshake->answer();
  const smc::Judgement<smc::Terms> terms =
      smc::judge_confirm(confirm, setup_->accept, setup_->terms);
  if (!terms) return decline(terms.error(), false, now);
  if (!smc_) return decline(FallbackReason::kNoActiveLink, false, now);
  Group& group = *smc_->group;
  if (!confirm.first_contact) {
    // The client speaks of the link that it uses, when the one of the Accept has gone meanwhile.
    const auto named = group.transport().link_to(confirm.queue_pair, confirm.gid, confirm.mac);
    if (named) set_named_link(*named);
  }
  name_peer_rmb(confirm);
  if (confirm.first_contact) {
    if (confirm.first_contact_v2) group.report().set_peer_host(confirm.first_contact_v2->host_name);
    const Result<void> connected = group.connect_first_link(
        {setup_->peer_gid, confirm.mac, confirm.queue_pair, confirm.first_psn,
         std::min(confirm.mtu, setup_->accept.mtu), direct_by(setup_->accept)});
    if (!connected) {
      note(connected.error().what);
      return decline(fallback_from_connect(connected.error()), false, now);
    }
    setup_->phase = "confirm_link";
    setup_->handshake->await_link(now);
    return await_client_memory(now);
  }
  // The client of a link that is in use has begun with its Confirm, and hears no Decline.
  if (!set_peer(confirm)) return fail_handshake("the client's memory cannot be used");
  setup_->handshake->establish();
}

// First contact. What a client says over TCP may overtake what it says over the device. It begins
// with its answer to CONFIRM_LINK, and hears no Decline afterwards. So its memory comes first.
void Session::await_client_memory(TimePoint now) {
  const Result<void> ready = set_peer(setup_->handshake->answer());
  // The group may have ended while it waited, and news of that may still be on its way.
  if (smc_->group->protocol().terminated() || (!ready && ready.error().code == Errc::kWrongState))
    return decline(FallbackReason::kNoActiveLink, false, now);
  if (!ready && ready.error().code == Errc::kWouldBlock) {
    if (!setup_->client_memory_since) setup_->client_memory_since = now;
    const Duration waited = now - *setup_->client_memory_since;
    return setup_->timer.set(now + std::max(kClientMemoryInterval, waited / 4));
  }
  setup_->client_memory_since.reset();
  if (!ready)
    return decline(reason_for(ready.error(), FallbackReason::kMemoryRegistration), false, now);
  smc_->group->start_first_contact(now);
  arm_timer();
}

// The server's part.
void Session::answer_hand_over(TimePoint now) {
  setup_ = std::make_unique<SetUp>(
      services_.timers, [this] { on_timer(); }, now);
  note("the client says that the connection has earned SMC-R");
  framed_->towards_net().hand_over();
  setup_->handshake.emplace(
      smc::Handshake::server(services_.offer.peer_id, now, services_.config.smc.handshake_timeout));
  setup_->phase = "clc_proposal";
  arm_timer();
  enter_handshake(now);
}

}  // namespace fairlead::relay
