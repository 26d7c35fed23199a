// Getting into a link group, and out of it: what client and server of a handshake do alike.

#include <algorithm>
#include <bit>
#include <cerrno>
#include <string_view>

#include "base/log.h"

#include "relay/session.h"

namespace fairlead::relay {

// The groups that a peer with this GID and MAC can have by the version that was agreed on.
PeerKey Session::peer_key(smc::GroupRole role, const PeerId& peer, const Mac& mac) const {
  PeerKey key{role, peer, setup_->peer_gid, {}};
  if (role == smc::GroupRole::kServer) key.source = net_->peer_address().with_port(0);
  key.version = setup_->terms.version;
  if (key.version == 1) {
    key.mac = mac;
    key.vlan = setup_->vlan;
  }
  return key;
}

Result<Group*> Session::make_group(const PeerKey& key) {
  GroupStart start;
  start.terms = setup_->terms;
  start.device = &setup_->slot->link_device();
  start.port = setup_->port;
  start.links_max = services_.devices.links_from(*setup_->slot, setup_->port);
  if (start.links_max > 1) start.place = place(setup_->peer_gid).kept();
  const SocketAddress address =
      key.role == smc::GroupRole::kServer ? key.source : destination_.unmapped().with_port(0);
  return services_.groups.create(key, address, std::move(start));
}

// `reason`, unless the device may lock no more memory. To be asked before anything is given back.
FallbackReason Session::reason_for(const Error& lack, FallbackReason reason) {
  note(lack.what);
  if (lack.what == std::string_view(kBudgetSpent)) return FallbackReason::kMemory;
  if (lack.what == std::string_view(kKeysRefused)) return FallbackReason::kMemoryRegistration;
  const rdma::Device& device = setup_->slot->device();
  if (lack.code != Errc::kExhausted || device.capabilities().registered_bytes_max == 0)
    return reason;
  // Drivers lock memory of their own, so that the kernel may find the limit reached before we do.
  const std::size_t least_bytes =
      smc::element_bytes(services_.devices.buffer_sizes(device).least_code);
  const bool spent = lack.system == ENOMEM || device.registrable_bytes() < least_bytes;
  return spent ? FallbackReason::kMemlockLimit : reason;
}

// Where memory is addressable, the client's element is not larger than the server's: so the server
// knows before its Accept what it may have to pay for, see RingSizes.
RingSizes Session::sizes_beside(const wire::AcceptConfirm& accept) const {
  const rdma::Device& device = setup_->slot->device();
  RingSizes sizes{services_.devices.buffer_sizes(device), smc::element_bytes(accept.rmb_size_code)};
  if (!device.capabilities().remote_memory_addressable) return sizes;
  sizes.own.wanted_code = std::min(sizes.own.wanted_code, accept.rmb_size_code);
  sizes.own.least_code = std::min(sizes.own.least_code, sizes.own.wanted_code);
  return sizes;
}

Result<void> Session::take_seat(Group& group, smc::LinkIndex link, const RingSizes& sizes) {
  const Group::Seat seat = SMC_TRY(group.take_seat(sizes.own, link));
  seat_ = seat;
  const std::span<std::byte> memory = group.memory().rmbs().bytes(seat.element);
  smc_ = std::make_unique<SmcRelay>(seat.token, static_cast<std::uint32_t>(memory.size()));
  smc_->buffers.element = seat.element;
  smc_->buffers.local = memory;
  smc_->group = &group;
  smc_->link = link;
  smc_->owner = this;
  // From here on the peer's messages find us: they may overtake its Confirm.
  group.connections().set(seat.token, smc_.get());
  Result<void> ring = group.take_send_ring(*smc_, sizes);
  if (!ring) leave_group(services_.network.now(), false);
  return ring;
}

// False when the peer knows where our element is. Otherwise handle_rmb_told() follows, in time or
// not.
bool Session::await_told(TimePoint now) {
  if (smc_->group->memory().announcement(seat_->element) == GroupMemory::Announcement::kDone)
    return false;
  note("the peer is told where our memory is");
  setup_->telling = true;
  phase_ = Phase::kQueued;
  setup_->timer.set(queue_end(now));
  return true;
}

// The peer waits as long for an answer. It can connect again, but not behind a hand-over: there a
// Decline has to come first, and the connection is TCP.
TimePoint Session::queue_end(TimePoint now) const {
  const Duration patience = services_.config.smc.handshake_timeout;
  if (!framed_) return now + patience;
  return (outbound() ? now : setup_->began) + patience / 2;
}

void Session::handle_rmb_told(TimePoint now) {
  if (phase_ != Phase::kQueued || !setup_->telling) return;
  const GroupMemory::Announcement telling = smc_->group->memory().announcement(seat_->element);
  if (telling == GroupMemory::Announcement::kUnderWay) return;
  setup_->telling = false;
  if (telling == GroupMemory::Announcement::kRefused) {
    note(kKeysRefused);
    return decline(FallbackReason::kMemoryRegistration, false, now);
  }
  setup_->timer.cancel();
  phase_ = Phase::kHandshake;
  outbound() ? confirm_named_link(now) : send_accept(now);
  services_.host.mark_ready(*this);
}

void Session::set_named_link(smc::LinkIndex link) {
  const std::optional<smc::Link>& named = smc_->group->protocol().links()[link];
  setup_->named_on = link;
  setup_->named_link = named ? named->number() : LinkNumber{0};
}

// Empty if the link has been deleted since; its slot may have another link by now.
std::optional<smc::LinkIndex> Session::named_link() const {
  if (setup_->forms_group) return setup_->named_on;
  const std::optional<smc::Link>& link = smc_->group->protocol().links()[setup_->named_on];
  if (!link || link->number() != setup_->named_link) return std::nullopt;
  return setup_->named_on;
}

// Before any link is added or lost, so that the group can find the same memory over other links.
void Session::name_peer_rmb(const wire::AcceptConfirm& answer) {
  smc_->group->protocol().peer_rmb_named(named_link(), {answer.rmb_rkey, answer.rmb_address});
}

// What the peer's Accept or Confirm says of its half. An error when it cannot be used, see
// rdma::QueuePair::remote_memory().
Result<void> Session::set_peer(const wire::AcceptConfirm& answer) {
  PeerElement element;
  element.rmb = {answer.rmb_rkey, answer.rmb_address};
  element.size_bytes = smc::element_bytes(answer.rmb_size_code);
  element.offset = std::uint64_t{element.size_bytes} * (answer.rmb_index.value - 1U);
  Result<void> ready =
      smc_->group->prepare_sending(*smc_, element, named_link(), answer.alert_token);
  if (!ready && ready.error().code != Errc::kWouldBlock) note(ready.error().what);
  return ready;
}

wire::AcceptConfirm Session::describe_seat(wire::ClcType type, bool first_contact) const {
  const Group& group = *smc_->group;
  // Nodes of one cluster's fabric are neighbours as a rule, and the kernel of the node finds the
  // true way to a user's queue pair by itself.
  const bool direct =
      first_contact && setup_->slot->reachability()
                           .direct(group.transport().port(smc_->link).gid, setup_->peer_gid)
                           .value_or(true);
  wire::AcceptConfirm answer =
      smc::make_answer(type, services_.offer, setup_->terms, first_contact, direct);
  const smc::LinkIdentity identity = group.transport().identity(smc_->link);
  const smc::RmbKey rmb = group.memory().rmb_key(seat_->element.slab, smc_->link);
  answer.gid = identity.gid;
  answer.mac = identity.mac;
  answer.queue_pair = identity.queue_pair;
  answer.first_psn = group.transport().queue_pair(smc_->link)->first_psn();
  answer.rmb_rkey = rmb.rkey;
  answer.rmb_address = rmb.address;
  answer.rmb_index = seat_->element.index;
  answer.rmb_size_code = group.memory().rmbs().size_code(seat_->element);
  answer.alert_token = seat_->token;
  answer.mtu = group.transport().port(smc_->link).mtu;
  if (type == wire::ClcType::kConfirm && answer.first_contact_v2) answer.gids.push(identity.gid);
  return answer;
}

void Session::leave_group(TimePoint now, bool quarantine) {
  if (!seat_) return;
  Group& group = *smc_->group;
  group.release_sending(*smc_);
  group.leave_seat(*seat_, smc_->link, quarantine, now);
  seat_.reset();
  smc_.reset();
}

}  // namespace fairlead::relay
