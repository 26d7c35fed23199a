// The place of one connection in a link group: what it takes and gives back, the link that the
// handshake names, and what both sides say of their halves.

#include "relay/connection/group_membership.h"

#include "group_fixture.h"

namespace fairlead::relay {
namespace {

class GroupMembershipTest : public GroupFixture {
 protected:
  explicit GroupMembershipTest(std::uint8_t links_max = 1) : GroupFixture(links_max) {}
  ~GroupMembershipTest() override { membership.leave(clock.at, false); }

  Result<void> try_join(const RingSizes& sizes = kSmallRings, bool first_contact = false) {
    return membership.join(*group, 0, sizes, first_contact, owner, clock.at);
  }
  void join(bool first_contact = false) {
    ASSERT_TRUE(try_join(kSmallRings, first_contact));
    membership.set_named_link(0);
  }
  void make_and_join() {
    establish();
    join();
  }
  // Nothing of the group is taken.
  void expect_nothing_taken() {
    EXPECT_FALSE(membership.joined());
    EXPECT_EQ(group->connections().count(), 0U);
    EXPECT_EQ(group->protocol().links().connections(), 0U);
    EXPECT_EQ(group->memory().rmbs().used_bytes(), 0U);
    EXPECT_EQ(group->memory().send_rings().used_bytes(), 0U);
  }
  // What the peer says of its half.
  static wire::AcceptConfirm answer_of_peer() {
    wire::AcceptConfirm answer;
    answer.rmb_rkey = kPeerRmb.rkey;
    answer.rmb_address = kPeerRmb.address;
    answer.rmb_index = RmbIndex{3};
    answer.rmb_size_code = 1;
    answer.alert_token = AlertToken{0xabc};
    return answer;
  }
  // What the peer says of the connection first.
  wire::CdcMessage first_message() {
    wire::CdcMessage message;
    message.sequence = 1;
    message.token = connection().local_token();
    return message;
  }
  void make_and_know_peer() {
    make_and_join();
    ASSERT_TRUE(membership.set_peer(answer_of_peer()));
  }
  void abort() {
    connection().abort();
    while (connection().poll_transmit()) continue;
  }
  smc::Connection& connection() { return membership.relay().connection(); }
  std::size_t elements_used() const { return group->memory().rmbs().used_bytes() / kRingBytes; }

  CountingOwner owner;
  GroupMembership membership;
};

TEST_F(GroupMembershipTest, AConnectionTakesItsPlace) {
  establish();
  EXPECT_FALSE(membership.joined());
  ASSERT_TRUE(try_join());
  ASSERT_TRUE(membership.joined());
  EXPECT_FALSE(membership.is_first_contact());
  EXPECT_EQ(&membership.group(), group.get());
  const SmcRelay& relay = membership.relay();
  EXPECT_EQ(&relay.group(), group.get());
  EXPECT_EQ(relay.link(), 0);
  EXPECT_EQ(&relay.owner(), &owner);
  EXPECT_EQ(relay.buffers().local().data(),
            group->memory().rmbs().bytes(relay.buffers().element()).data());
  EXPECT_EQ(relay.buffers().local().size(), kRingBytes);
  ASSERT_TRUE(relay.buffers().send_ring());
  EXPECT_EQ(group->memory().send_rings().used_bytes(), kRingBytes);
  EXPECT_EQ(group->protocol().links().connections(0), 1U);
}

// The peer's data may overtake its Confirm.
TEST_F(GroupMembershipTest, MessagesOfThePeerFindTheConnectionAtOnce) {
  establish();
  ASSERT_TRUE(try_join());
  EXPECT_EQ(group->connections().find(connection().local_token()), &membership.relay());
  wire::CdcMessage message = first_message();
  message.producer = {0, 100};
  receive(message);
  EXPECT_EQ(owner.events, 1);
  EXPECT_EQ(connection().rx().window().bytes(), 100U);
  EXPECT_EQ(stats.cdc_received.get(), 1U);
  EXPECT_EQ(stats.cdc_rejected.get() + stats.llc_rejected.get(), 0U);
}

TEST_F(GroupMembershipTest, WithoutAnElementThereIsNoPlace) {
  establish();
  leave_for_rings(0);
  EXPECT_EQ(error_of(try_join()), kNoBudget);
  expect_nothing_taken();
}

TEST_F(GroupMembershipTest, WithoutASendRingThereIsNoPlace) {
  establish();
  leave_for_rings(kRingBytes);
  EXPECT_EQ(error_of(try_join()), kNoBudget);
  expect_nothing_taken();
  EXPECT_EQ(group->memory().rmbs().total_bytes(), kRingBytes) << "there was an element";
}

TEST_F(GroupMembershipTest, WhoLeavesGivesAllBack) {
  make_and_know_peer();
  group->sender().schedule(membership.relay());
  membership.leave(clock.at, false);
  expect_nothing_taken();
  membership.leave(clock.at, false);
  EXPECT_EQ(group->protocol().links().connections(), 0U);
  group->sender().flush(clock.at);
  EXPECT_FALSE(group->sender().pending()) << "it is not sent for any more";
}

TEST_F(GroupMembershipTest, AnElementThatThePeerMayWriteToStaysTaken) {
  make_and_join();
  membership.leave(clock.at, true);
  EXPECT_FALSE(membership.joined());
  EXPECT_EQ(elements_used(), 1U);
  EXPECT_EQ(group->memory().send_rings().used_bytes(), 0U);
}

TEST_F(GroupMembershipTest, AnEndBeforeThePeersLeavesItsElementInQuarantine) {
  make_and_know_peer();
  connection().abort();
  membership.leave_at_end(clock.at);
  EXPECT_FALSE(membership.joined());
  EXPECT_EQ(elements_used(), 1U);
}

TEST_F(GroupMembershipTest, AfterTheEndOfBothSidesTheElementIsFree) {
  make_and_know_peer();
  abort();
  wire::CdcMessage last = first_message();
  last.state.aborted = true;
  receive(last);
  ASSERT_TRUE(connection().finished());
  membership.leave_at_end(clock.at);
  EXPECT_EQ(elements_used(), 0U);
}

// It has closed, and writes on when it hears of room before it hears of our abort.
TEST_F(GroupMembershipTest, AnElementWhosePeerWaitsForRoomStaysTaken) {
  make_and_know_peer();
  wire::CdcMessage last = first_message();
  last.state.closed = last.producer_flags.write_blocked = true;
  receive(last);
  abort();
  ASSERT_TRUE(connection().finished());
  membership.leave_at_end(clock.at);
  EXPECT_EQ(elements_used(), 1U);
}

TEST_F(GroupMembershipTest, WithoutItsGroupThePeerWritesToNoElement) {
  make_and_know_peer();
  connection().handle_link_switched(connection().tx().element());
  connection().handle_link_lost();
  ASSERT_FALSE(connection().finished()) << "it still had to repeat its state";
  membership.leave_at_end(clock.at);
  EXPECT_EQ(elements_used(), 0U);
}

TEST_F(GroupMembershipTest, WhoHasNoPlaceHasNothingToEnd) {
  establish();
  membership.leave_at_end(clock.at);
  membership.abort_first_contact(clock.at);
  EXPECT_TRUE(group->protocol().usable());
}

TEST_F(GroupMembershipTest, AGroupEndsWithItsFirstContact) {
  connect();
  join(true);
  EXPECT_TRUE(membership.is_first_contact());
  membership.abort_first_contact(clock.at);
  EXPECT_FALSE(membership.is_first_contact());
  EXPECT_EQ(end_why(), "the first contact failed");
}

TEST_F(GroupMembershipTest, AFirstContactMayFailBeforeThereIsALink) {
  make();
  join(true);
  // Its link has no number yet that could tell it from another.
  EXPECT_EQ(membership.named_link(), smc::LinkIndex{0});
  membership.abort_first_contact(clock.at);
  EXPECT_EQ(end_why(), "the first contact failed");
}

TEST_F(GroupMembershipTest, AGroupOutlivesTheHandshakeOfALaterConnection) {
  make_and_join();
  membership.abort_first_contact(clock.at);
  EXPECT_TRUE(group->protocol().usable());
  EXPECT_EQ(end_why(), "");
}

TEST_F(GroupMembershipTest, TheMemoryThatThePeerNamesBecomesKnown) {
  make();
  join(true);
  EXPECT_FALSE(group->protocol().peer_rmbs().known(kPeerRmb));
  membership.name_peer_rmb(answer_of_peer());
  EXPECT_TRUE(group->protocol().peer_rmbs().find(0, kPeerRmb));
}

TEST_F(GroupMembershipTest, ThePeersElementIsFoundByItsIndexAndSize) {
  make_and_know_peer();
  const smc::RmbElement& element = connection().tx().element();
  EXPECT_EQ(element.rkey, kPeerRmb.rkey);
  EXPECT_EQ(element.size_bytes, smc::element_bytes(1));
  EXPECT_EQ(element.address.value, kPeerRmb.address.value + 2 * smc::element_bytes(1));
  EXPECT_EQ(connection().peer_token(), AlertToken{0xabc});
  EXPECT_EQ(membership.relay().buffers().named_on(), smc::LinkIndex{0});
}

TEST_F(GroupMembershipTest, MemoryThatThePeerHasNotNamedCannotBeUsed) {
  make_and_join();
  wire::AcceptConfirm answer = answer_of_peer();
  answer.rmb_rkey = RemoteKey{kPeerRmb.rkey.value + 1};
  EXPECT_EQ(error_of(membership.set_peer(answer)).code, Errc::kNotFound);
  EXPECT_TRUE(group->protocol().usable());
}

TEST_F(GroupMembershipTest, TheAnswerDescribesThisHalf) {
  one.device.port_list[0].mtu = Mtu::k4096;
  start.port = one.device.port_list[0];
  establish();
  Group::Member other = group->join({1, 1}, 0).value();
  ASSERT_TRUE(try_join({{1, 1}, std::nullopt}));
  wire::AcceptConfirm answer;
  membership.describe(answer);
  const smc::RmbKey rmb = group->memory().rmb_key(0, 0);
  EXPECT_EQ(answer.gid, gid_of(1));
  EXPECT_EQ(answer.mac, mac_of(1));
  EXPECT_EQ(answer.queue_pair, queue_pair().number());
  EXPECT_EQ(answer.first_psn, queue_pair().first_psn());
  EXPECT_EQ(answer.rmb_rkey, rmb.rkey);
  EXPECT_EQ(answer.rmb_address, rmb.address);
  EXPECT_EQ(answer.rmb_index, RmbIndex{2}) << "behind the other connection";
  EXPECT_EQ(answer.rmb_size_code, 1);
  EXPECT_EQ(answer.alert_token, connection().local_token());
  EXPECT_EQ(answer.mtu, Mtu::k4096);
  group->leave(other, 0, false, clock.at);
}

class GroupMembershipOfTwoLinks : public GroupMembershipTest {
 protected:
  GroupMembershipOfTwoLinks() : GroupMembershipTest(2) {}
};

TEST_F(GroupMembershipOfTwoLinks, ALinkThatIsGoneIsNamedNoMore) {
  establish_two_links();
  join();
  EXPECT_EQ(membership.named_link(), smc::LinkIndex{0});
  membership.set_named_link(1);
  EXPECT_EQ(membership.named_link(), smc::LinkIndex{1});
  group->handle_link_failure(1, "cut", clock.at);
  EXPECT_EQ(membership.named_link(), std::nullopt);
}

TEST_F(GroupMembershipOfTwoLinks, AnotherLinkInTheSameSlotIsNotTheOneThatWasNamed) {
  connect();
  join();
  membership.set_named_link(1);
  EXPECT_EQ(membership.named_link(), std::nullopt);
  confirm(0);
  answer_add_link();
  confirm(1);
  ASSERT_TRUE(group->protocol().links().active(1));
  EXPECT_EQ(membership.named_link(), std::nullopt);
}

TEST_F(GroupMembershipOfTwoLinks, AConnectionIsDescribedByTheLinkThatCarriesIt) {
  establish_two_links();
  join();
  membership.relay().move_to(1);
  wire::AcceptConfirm answer;
  membership.describe(answer);
  EXPECT_EQ(answer.gid, gid_of(2));
  EXPECT_EQ(answer.mac, mac_of(2));
  EXPECT_EQ(answer.queue_pair, queue_pair(1).number());
  EXPECT_EQ(answer.first_psn, queue_pair(1).first_psn());
  membership.relay().move_to(0);
}

}  // namespace
}  // namespace fairlead::relay
