#include "relay/connection/group_membership.h"

#include "smc/connection/cursor.h"

namespace fairlead::relay {

Result<void> GroupMembership::join(Group& group, smc::LinkIndex link, const RingSizes& sizes,
                                   bool first_contact, ConnectionOwner& owner, TimePoint now) {
  member_ = SMC_TRY(group.join(sizes.own, link));
  first_contact_ = first_contact;
  const std::span<std::byte> memory = group.memory().rmbs().bytes(member_.element);
  relay_ = std::make_unique<SmcRelay>(member_.token, member_.element, memory,
                                      SmcRelay::Place{&group, link, &owner});
  // From here on messages of the peer find the connection: they may overtake its Confirm.
  group.connections().set(member_.token, relay_.get());
  Result<void> ring = group.take_send_ring(*relay_, sizes);
  if (!ring) leave(now, false);
  return ring;
}

void GroupMembership::leave(TimePoint now, bool quarantine) {
  if (!relay_) return;
  Group& group = relay_->group();
  group.release_sending(*relay_);
  group.leave(member_, relay_->link(), quarantine, now);
  relay_.reset();
}

void GroupMembership::leave_at_end(TimePoint now) {
  if (!relay_) return;
  const smc::Connection& connection = relay_->connection();
  const bool over = connection.finished() &&
                    !connection.closing().peer_writes_on(connection.rx().write_blocked());
  leave(now, !over && !connection.closing().lost());
}

void GroupMembership::abort_first_contact(TimePoint now) {
  if (!first_contact_ || !relay_) return;
  first_contact_ = false;
  group().handle_link_failure(relay_->link(), "the first contact failed", now);
}

void GroupMembership::set_named_link(smc::LinkIndex link) {
  const std::optional<smc::Link>& named = group().protocol().links()[link];
  named_on_ = link;
  named_link_ = named ? named->number() : LinkNumber{0};
}

std::optional<smc::LinkIndex> GroupMembership::named_link() const {
  if (first_contact_) return named_on_;
  const std::optional<smc::Link>& link = group().protocol().links()[named_on_];
  if (!link || link->number() != named_link_) return std::nullopt;
  return named_on_;
}

void GroupMembership::name_peer_rmb(const wire::AcceptConfirm& answer) {
  group().protocol().peer_rmb_named(named_link(), {answer.rmb_rkey, answer.rmb_address});
}

Result<void> GroupMembership::set_peer(const wire::AcceptConfirm& answer) {
  PeerElement element;
  element.rmb = {answer.rmb_rkey, answer.rmb_address};
  element.size_bytes = smc::element_bytes(answer.rmb_size_code);
  element.offset = std::uint64_t{element.size_bytes} * (answer.rmb_index.value - 1U);
  return group().prepare_sending(*relay_, element, named_link(), answer.alert_token);
}

void GroupMembership::describe(wire::AcceptConfirm& answer) const {
  const LinkTransport& transport = group().transport();
  const smc::LinkIdentity identity = transport.identity(relay_->link());
  const smc::RmbKey rmb = group().memory().rmb_key(member_.element.slab, relay_->link());
  answer.gid = identity.gid;
  answer.mac = identity.mac;
  answer.queue_pair = identity.queue_pair;
  answer.first_psn = transport.queue_pair(relay_->link())->first_psn();
  answer.rmb_rkey = rmb.rkey;
  answer.rmb_address = rmb.address;
  answer.rmb_index = member_.element.index;
  answer.rmb_size_code = group().memory().rmbs().size_code(member_.element);
  answer.alert_token = member_.token;
  answer.mtu = transport.port(relay_->link()).mtu;
}

}  // namespace fairlead::relay
