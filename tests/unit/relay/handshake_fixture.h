// A handshake of one side, and the peer that a test plays: CLC over the stream to the network, LLC
// over a queue pair of a device in memory.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "clc_text.h"
#include "relay/connection/group_membership.h"
#include "smc/connection/cursor.h"
#include "stage_fixture.h"
#include "wire/llc.h"

namespace fairlead::relay {

inline constexpr std::uint8_t kHostOfPeer = 9;

// Another connection of the worker, with a place in a link group.
class OtherConnection final : public ConnectionOwner {
 public:
  void handle_connection_event() override {}
  void handle(const Event&, TimePoint) override {}

  GroupMembership membership;
};

class HandshakeTest : public StageTest {
 protected:
  explicit HandshakeTest(smc::GroupRole own_role) : role(own_role) {
    rnic.reachability->servers = {gid_of(kHostOfPeer)};
    rnic.reachability->client = gid_of(kHostOfPeer);
    rnic.reachability->pnets = {{PortNumber{1}, "NET"}};
    peer_id.bytes[0] = kHostOfPeer;
  }
  ~HandshakeTest() override { other.membership.leave(network.now(), true); }

  // What the peer says of its half of a connection.
  wire::AcceptConfirm answer_of_peer(wire::ClcType type, bool first_contact) const {
    wire::AcceptConfirm answer;
    answer.type = type;
    answer.first_contact = first_contact;
    answer.peer_id = peer_id;
    answer.gid = gid_of(kHostOfPeer);
    answer.mac = mac_of(kHostOfPeer);
    answer.queue_pair = QpNumber{500};
    answer.first_psn = PacketSeq{600};
    answer.rmb_rkey = RemoteKey{700};
    answer.rmb_address = RemoteAddress{1 << 20};
    answer.alert_token = AlertToken{800};
    answer.eid = offer.ueids[0];
    if (!first_contact) return answer;
    answer.first_contact_v2.emplace();
    if (type == wire::ClcType::kConfirm) answer.gids.push(answer.gid);
    return answer;
  }
  template <class Message>
  void send(const Message& message) {
    net->feed(encoded(message));
    turn();
  }
  void send_decline(FallbackReason reason, bool out_of_sync = false) {
    wire::Decline decline;
    decline.peer_id = peer_id;
    decline.reason = fallback_info(reason).wire_code;
    decline.out_of_sync = out_of_sync;
    send(decline);
  }

  // The group that was made last.
  Group& group() {
    Group* last = nullptr;
    groups.peers().for_each([&](Group& each) { last = &each; });
    EXPECT_TRUE(last) << "there is no link group";
    return *last;
  }
  FakeQueuePair& queue_pair() { return *rnic.device->queue_pairs.back(); }
  void send_llc(const wire::LlcBody& body) {
    std::array<std::byte, wire::kLlcBytesMax> bytes;
    const std::size_t count = wire::encode({wire::LlcVersion::k2, body}, bytes);
    group().handle_message(0, std::span(bytes).first(count), network.now());
    settle();
  }
  // The message of this type that was sent last over the queue pair.
  template <class Body>
  std::optional<Body> sent_llc() {
    settle();
    return queue_pair().last<Body>();
  }
  // The peer's memory, where it is addressable.
  std::vector<std::byte>& grant_memory() {
    const wire::AcceptConfirm named = answer_of_peer(wire::ClcType::kAccept, false);
    queue_pair().remote_error.reset();
    FakeQueuePair::RemoteBuffer& granted = queue_pair().remote[named.rmb_rkey];
    granted = {named.rmb_address, std::vector<std::byte>(smc::element_bytes(named.rmb_size_code))};
    return granted.bytes;
  }
  wire::ConfirmLink confirm_link() const {
    wire::ConfirmLink message;
    message.kind =
        role == smc::GroupRole::kClient ? wire::LlcKind::kRequest : wire::LlcKind::kResponse;
    message.gid = gid_of(kHostOfPeer);
    message.link = LinkNumber{1};
    return message;
  }
  // The peer answers to the announcement of one of our RMBs.
  void answer_announcement(bool refused) {
    const std::optional<wire::ConfirmRkey> request = sent_llc<wire::ConfirmRkey>();
    ASSERT_TRUE(request) << "nothing was announced";
    wire::ConfirmRkey answer = *request;
    answer.kind = wire::LlcKind::kResponse;
    answer.refused = refused;
    send_llc(answer);
  }

  // A link group with the peer, whose first contact is under way. `with_memory`: another connection
  // makes that, so that the peer gets to know an RMB.
  Group& make_group(bool with_memory = true) {
    PeerKey key{role, peer_id, gid_of(kHostOfPeer), {}};
    if (role == smc::GroupRole::kServer) key.source = client.with_port(0);
    GroupStart start;
    start.terms.eid = offer.ueids[0];
    start.device = &rnic.slot->link_device();
    start.port = rnic.device->port_list[0];
    const wire::AcceptConfirm named = answer_of_peer(wire::ClcType::kAccept, true);
    Group& made = *groups.create(key, client.with_port(0), std::move(start)).value();
    if (with_memory) {
      const RingSizes sizes{devices.buffer_sizes(*rnic.device), std::nullopt};
      EXPECT_TRUE(other.membership.join(made, 0, sizes, false, other, network.now()));
    }
    made.protocol().peer_rmb_named(smc::LinkIndex{0}, {named.rmb_rkey, named.rmb_address});
    EXPECT_TRUE(made.connect_first_link({named.gid, named.mac, named.queue_pair}));
    return made;
  }
  void end_group() {
    group().terminate("a test ends it");
    settle();
  }
  void lose_group() {
    group().handle_link_failure(0, "the cable was cut", network.now());
    settle();
  }
  void confirm(Group& made) {
    made.start_first_contact(network.now());
    send_llc(confirm_link());
    EXPECT_TRUE(made.protocol().usable());
  }
  Group& establish_group(bool with_memory = true) {
    Group& made = make_group(with_memory);
    confirm(made);
    other.membership.leave(network.now(), false);  // the element is free
    return made;
  }

  void spend_rings() { ASSERT_TRUE(budget.take(MemoryUse::kRings, budget.rings_left_bytes())); }
  // The device may lock no more memory.
  void spend_locked_memory() {
    rnic.device->able.registered_bytes_max = std::size_t{1} << 20;
    rnic.device->registrable = 0;
  }
  void queue_pairs_cannot_connect(int error) {
    rnic.device->connect_error = Error{Errc::kSystem, "ibv_modify_qp", error};
  }

  void expect_declined(FallbackReason expected, bool out_of_sync = false) {
    const auto decline = take_written<wire::Decline>(*net);
    EXPECT_EQ(decline.reason, fallback_info(expected).wire_code);
    EXPECT_EQ(decline.peer_id, offer.peer_id);
    EXPECT_EQ(decline.out_of_sync, out_of_sync);
    expect_tcp(Side::kLocal, expected);
  }
  void expect_tcp(Side side, FallbackReason expected) {
    ASSERT_TRUE(tcp_result()) << "the connection is not TCP";
    EXPECT_EQ(fallback_info(tcp_result()->cause.reason).name, fallback_info(expected).name);
    EXPECT_EQ(tcp_result()->cause.side, side);
    EXPECT_FALSE(host.stage.smc()) << "it has kept its place in a group";
  }
  const UseSmc* smc_result() const { return std::get_if<UseSmc>(&host.result); }

  const smc::GroupRole role;
  PeerId peer_id;
  Placed rnic = add_device();
  OtherConnection other;
};

// What the device lacks when it is asked.
inline constexpr Error kNoLockedMemory{Errc::kExhausted, "ibv_reg_mr", ENOMEM};
inline constexpr Error kDriverError{Errc::kSystem, "ibv_create_qp", EINVAL};

}  // namespace fairlead::relay
