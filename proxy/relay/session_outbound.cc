// The outbound side: connections of our application to the world. Dials with the SMC option where
// the configuration wants it, and is the client of the handshake.

#include <algorithm>
#include <utility>

#include "base/log.h"

#include "relay/session.h"

namespace fairlead::relay {
namespace {

bool only_withheld(const DeviceRegistry& devices, const Place& place) {
  const bool any = std::any_of(devices.slots().begin(), devices.slots().end(),
                               [&](const auto& slot) { return slot->withheld(place); });
  return any && devices.offer_towards(place).slot == nullptr;
}

}  // namespace

void Session::start_outbound(TimePoint now) {
  const config::Config& config = services_.config;
  const bool assumed = config::assumed(config.smc, destination_);
  std::optional<FallbackReason>& plain = setup_->plain_reason;
  if (!config.smc.enabled) {
    plain = FallbackReason::kDisabled;
  } else if (config::excluded(config.smc, destination_)) {
    plain = FallbackReason::kPolicyExcluded;
  } else if (services_.admission.draining()) {
    plain = FallbackReason::kDraining;
  } else if (!services_.devices.any_in_network()) {
    plain = services_.devices.no_device_reason();
  } else if (!assumed && !services_.network.option_available()) {
    plain = FallbackReason::kNoOptionProgram;
  } else if (!services_.admission.begin_handshake()) {
    plain = FallbackReason::kConnectionLimit;
  } else {
    setup_->counted = true;
  }
  setup_->assumed = assumed;
  if (plain) {
    note("the connection is to stay TCP");
  } else if (!services_.admission.turns().take(destination_, number_)) {
    note("waiting: the peer has many handshakes in hand");
    setup_->phase = "turn";
    setup_->turn = Turn::kInLine;
    return setup_->timer.set(now + config.smc.handshake_timeout);
  } else {
    setup_->turn = Turn::kTaken;
  }
  dial_net(!plain && !assumed, now);
}

void Session::handle_turn() {
  setup_->turn = Turn::kTaken;
  setup_->timer.cancel();
  services_.host.mark_ready(*this);
}

void Session::probe_peer_later() {
  if (!outbound()) return;
  timers_.probes.emplace(services_.timers, [this] {
    if (net_) services_.network.probe_peer(*net_);
  });
  timers_.probes->set(services_.network.now() + kProbesBegin);
}

// Who has waited as long as a handshake may take is not kept waiting for one.
void Session::give_up_line(TimePoint now) {
  end_turn();
  note("no turn for a handshake with the peer");
  setup_->plain_reason = FallbackReason::kConnectionLimit;
  setup_->outcome.detail = "no turn among limits.handshakes_per_peer";
  if (framed_) return hand_over(now);
  dial_net(false, now);
}

void Session::end_turn() {
  switch (std::exchange(setup_->turn, Turn::kNone)) {
    case Turn::kNone:
      return;
    case Turn::kInLine:
      return services_.admission.turns().leave(destination_, number_);
    case Turn::kTaken:
      if (const std::optional<std::uint64_t> next =
              services_.admission.turns().give_back(destination_))
        services_.host.grant_turn(*next);
  }
}

void Session::dial_net(bool with_option, TimePoint now) {
  setup_->phase = "dial";
  phase_ = Phase::kDialing;
  const SocketAddress client = app_->peer_address();
  const bpf::Announced announce = !with_option                       ? bpf::Announced::kNothing
                                  : config::defers(services_.config) ? bpf::Announced::kFrames
                                                                     : bpf::Announced::kSmc;
  Result<std::unique_ptr<event::Stream>> net = services_.network.dial_peer(
      destination_, announce, setup_->arrival == Arrival::kRedirected ? &client : nullptr);
  if (!net) return dial_failed(net.error().system);
  net_ = std::move(*net);
  net_->set_handler(this);
  setup_->timer.set(now + services_.config.limits.dial_timeout);
}

void Session::net_connected(TimePoint now) {
  setup_->timer.cancel();
  // Not before: the window scale of the connection comes from what the buffer could become.
  if (!memory_.bound_network(*net_)) return refuse_for_memory();
  if (setup_->plain_reason) {
    const smc::Handshake::Outcome outcome = setup_->outcome;
    // A program of the node side writes the option without being asked. Who answered it awaits CLC,
    // and would take the application's bytes for that.
    if (services_.network.option_answered(*net_) != bpf::Announced::kNothing) {
      note("the SYN carried the SMC option all the same: declined");
      return decline_first(*setup_->plain_reason, outcome.detail, now);
    }
    return become_tcp(outcome.side, *setup_->plain_reason, outcome.peer_code, outcome.detail, now);
  }
  const bpf::Announced answered =
      setup_->assumed ? bpf::Announced::kSmc : services_.network.option_answered(*net_);
  if (answered == bpf::Announced::kNothing) {
    note("the SYN/ACK carried no SMC option");
    return become_tcp_expected(FallbackReason::kPeerNotInjected, now);
  }
  note(setup_->assumed ? "the peer is assumed to speak SMC" : "the SYN/ACK carried the SMC option");
  // Where the path is encrypted and no other device leads there, nothing can be earned.
  if (answered != bpf::Announced::kFrames || only_withheld(services_.devices, place()))
    return propose(now);
  if (memory_.begin_frames()) return begin_in_frames(now);
  note("no memory for what frames may carry");
  decline_first(FallbackReason::kMemory, kBudgetSpent, now);
}

// A Decline instead of the Proposal.
void Session::decline_first(FallbackReason reason, const char* detail, TimePoint now) {
  setup_->handshake.emplace(smc::Handshake::refusal(services_.offer.peer_id, reason, detail));
  // The peer has still to hand over.
  if (framed_) setup_->timer.set(now + services_.config.smc.handshake_timeout);
  phase_ = Phase::kHandshake;
  run_handshake(now);
}

void Session::propose(TimePoint now) {
  setup_->phase = "clc_proposal";
  const smc::LocalOffer& offer = services_.offer;
  if (!offer.version_2) setup_->terms.version = 1;
  const DeviceRegistry::Offered offered = services_.devices.offer_towards(place());
  setup_->withheld = offered.withheld;
  if (offered.withheld && offered.slot == nullptr) {
    note("the path to the peer is encrypted: declined");
    return decline_first(FallbackReason::kIpsec, "no other device reaches the peer", now);
  }
  setup_->slot = offered.slot;
  setup_->port = offered.port;
  const std::optional<smc::OfferV1> v1 = offer_version_1();
  if (!offer.version_2 && !v1) {
    note("version 1 alone is spoken here, and the connection has no subnet");
    return decline_first(FallbackReason::kConfigError, "no subnet", now);
  }
  setup_->proposal =
      smc::make_proposal(offer, offered.port.gid, offered.port.mac, offered.vendor, v1);
  if (setup_->proposal.v2) setup_->proposal.v2->max_links = services_.devices.links_offered();
  setup_->handshake.emplace(smc::Handshake::client(setup_->proposal, offer.peer_id, now,
                                                   services_.config.smc.handshake_timeout));
  phase_ = Phase::kHandshake;
  arm_timer();
  run_handshake(now);
}

// Beside version 2 only from a GID that peers of any make can use.
std::optional<smc::OfferV1> Session::offer_version_1() {
  if (!services_.offer.version_1) return std::nullopt;
  Gid gid = setup_->port.gid;
  if (services_.offer.version_2) {
    if (setup_->slot == nullptr) return std::nullopt;
    Place at = place();
    at.version = 1;
    const auto port = setup_->slot->reachability().roce_v1_port(setup_->port, at);
    if (!port) return std::nullopt;
    gid = port->gid;
  }
  const std::optional<smc::Subnets> own = services_.subnets(net_->local_address().unmapped());
  if (!own) return std::nullopt;
  setup_->vlan = own->vlan;
  return smc::OfferV1{gid, own->area};
}

// The stream is spoilt, but no byte of the application has been lost: a new one, plain TCP from the
// start, carries them.
void Session::redial_plain(FallbackReason reason, const char* detail, TimePoint now) {
  note("the handshake failed; connecting again without SMC");
  setup_->outcome = {Side::kLocal, reason, 0, false, detail};
  setup_->plain_reason = reason;
  setup_->handshake.reset();
  setup_->unread.clear();
  fail_forming_group(now);
  leave_group(now, true);
  net_->reset_on_close();
  net_.reset();
  dial_net(false, now);
}

void Session::handle_accept(TimePoint now) {
  setup_->phase = "clc_accept";
  const wire::AcceptConfirm& accept = setup_->handshake->answer();
  const smc::Judgement<smc::Terms> terms = smc::judge_accept(accept, setup_->proposal);
  if (!terms) return decline(terms.error(), false, now);
  setup_->terms = *terms;
  if (terms->version == 1) setup_->port.gid = setup_->proposal.v1_gid;
  if (!choose_slot_of_server(accept.gid)) {
    const bool lacks_network = setup_->slot != nullptr && !setup_->slot->in_network();
    return decline(lacks_network ? FallbackReason::kNoPnet : FallbackReason::kNoRoute, false, now);
  }
  const PeerKey key = peer_key(smc::GroupRole::kClient, accept.peer_id, accept.mac);
  if (!accept.first_contact) return join_named_link(key, accept, now);
  if (gateway_disputed(accept)) return decline(FallbackReason::kIndirectMismatch, false, now);
  note("first contact: a new link group");
  const Result<Group*> made = make_group(key);
  if (!made)
    return decline(reason_for(made.error(), FallbackReason::kQueuePairNotReady), false, now);
  Group* const group = *made;
  setup_->forms_group = true;
  setup_->named_on = 0;
  if (accept.first_contact_v2) group->report().set_peer_host(accept.first_contact_v2->host_name);
  if (const Result<void> seated = take_seat(*group, 0, sizes_beside(accept)); !seated) {
    const FallbackReason reason = reason_for(seated.error(), FallbackReason::kMemory);
    group->handle_link_failure(0, "no memory for the first connection", now);
    return decline(reason, false, now);
  }
  name_peer_rmb(accept);
  wire::AcceptConfirm confirm = describe_seat(wire::ClcType::kConfirm, true);
  confirm.mtu = std::min(confirm.mtu, accept.mtu);
  const Result<void> connected =
      group->connect_first_link({accept.gid, accept.mac, accept.queue_pair, accept.first_psn,
                                 confirm.mtu, direct_by(confirm)});
  if (!connected) {
    note(connected.error().what);
    return decline(fallback_from_connect(connected.error()), false, now);
  }
  group->start_first_contact(now);
  setup_->phase = "confirm_link";
  setup_->handshake->send_confirm(confirm);
  setup_->handshake->await_link(now);
  arm_timer();
}

// The server may lead us to another device than the one whose GID we told: that of the same node.
bool Session::choose_slot_of_server(const Gid& gid) {
  const DeviceSlot* offered = setup_->slot;
  setup_->slot = services_.devices.slot_of_server(gid, setup_->slot);
  setup_->peer_gid = gid;
  if (setup_->slot == nullptr) return false;
  if (setup_->slot == offered) return true;
  const std::optional<rdma::Port> port = setup_->slot->choose_port(place(gid));
  if (port) setup_->port = *port;
  return port.has_value();
}

// As in Linux: the server sees a gateway where our route has none. A queue pair would then send
// past the network that the server expects. The other way round the server's word counts.
bool Session::gateway_disputed(const wire::AcceptConfirm& accept) const {
  if (!accept.first_contact_v2 || accept.first_contact_v2->direct) return false;
  return setup_->slot->reachability().direct(setup_->port.gid, accept.gid) == true;
}

void Session::join_named_link(const PeerKey& key, const wire::AcceptConfirm& accept,
                              TimePoint now) {
  const std::optional<LinkPlace> named = services_.groups.peers().by_link(key, accept.queue_pair);
  if (!named) {
    if (services_.groups.peers().knows(key)) {
      // Out of sync would cost a Linux server the group with all its connections.
      note("the peer named a link that the group does not have");
      return decline(FallbackReason::kLinkNotFound, false, now);
    }
    note("the peer named a link group that we do not have");
    return decline(FallbackReason::kSyncError, true, now);
  }
  Group& group = *named->group;
  setup_->terms = group.protocol().terms();
  // The link may have failed while the Accept was on its way.
  const bool active = group.protocol().links().active(named->link);
  const Result<void> seated = take_seat(
      group, active ? named->link : group.protocol().links().least_used(), sizes_beside(accept));
  if (!seated) return decline(reason_for(seated.error(), FallbackReason::kMemory), false, now);
  set_named_link(named->link);
  if (!await_told(now)) confirm_named_link(now);
}

void Session::confirm_named_link(TimePoint now) {
  const wire::AcceptConfirm& accept = setup_->handshake->answer();
  if (const Result<void> ready = set_peer(accept); !ready)
    return decline(reason_for(ready.error(), FallbackReason::kMemoryRegistration), false, now);
  note("an existing link group is used");
  wire::AcceptConfirm confirm = describe_seat(wire::ClcType::kConfirm, false);
  confirm.mtu = std::min(confirm.mtu, accept.mtu);
  setup_->handshake->send_confirm(confirm);
  setup_->handshake->establish();
}

// Of a connection that has earned one.
std::optional<FallbackReason> Session::obstacle_to_handshake() {
  if (services_.admission.draining()) return FallbackReason::kDraining;
  if (!services_.devices.any_in_network()) return services_.devices.no_device_reason();
  if (!services_.admission.begin_handshake()) return FallbackReason::kConnectionLimit;
  return std::nullopt;
}

// The client's part. Where there can be no handshake, both proxies learn that by a Decline, and
// the connection goes on without frames.
void Session::hand_over(TimePoint now) {
  if (!setup_) {
    setup_ = std::make_unique<SetUp>(
        services_.timers, [this] { on_timer(); }, now);
    setup_->phase = "hand_over";
    note("the connection has earned SMC-R");
    setup_->plain_reason = obstacle_to_handshake();
    if (!setup_->plain_reason) {
      setup_->counted = true;
      const bool turn = services_.admission.turns().take(destination_, number_);
      setup_->turn = turn ? Turn::kTaken : Turn::kInLine;
      if (!turn) {
        note("waiting: the peer has many handshakes in hand");
        setup_->timer.set(now + services_.config.smc.handshake_timeout);
      }
    }
  }
  if (setup_->turn == Turn::kInLine) return;
  framed_->towards_net().hand_over();
  timers_.wait.reset();
  setup_->plain_reason ? decline_first(*setup_->plain_reason, setup_->outcome.detail, now)
                       : propose(now);
}

}  // namespace fairlead::relay
