// A link group as the façade of its parts: its beginning, places of connections and their way to
// the peer's memory, messages of the peer, and its end.

#include "relay/group/group.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

#include "group_fixture.h"

namespace fairlead::relay {
namespace {

using EventKind = smc::GroupEvent::Kind;

constexpr BufferSizes kSizes = kSmallRings.own;
constexpr unsigned kPerSlab = smc::kSlabBytesFirst / kRingBytes;

class GroupTest : public GroupFixture {
 protected:
  wire::CdcMessage cdc_for(const Connection& to) {
    wire::CdcMessage message;
    message.sequence = 1;
    message.token = to.member.token;
    return message;
  }
};

// Its beginning and its end as an object.

TEST_F(GroupTest, AGroupPaysForItsStateAndItsMessages) {
  make();
  EXPECT_GE(budget.used_bytes(MemoryUse::kMessages), kGroupBytes);
  group.reset();
  EXPECT_EQ(budget.left_bytes(), budget.limit_bytes());
}

TEST_F(GroupTest, AGroupLeavesAPartOfTheMemory) {
  const std::size_t kept = budget.limit_bytes() / kGroupsLeave;
  const auto rest = MemoryCharge::take(budget, MemoryUse::kConnections,
                                       budget.left_bytes() - kept - kGroupBytes + 1);
  ASSERT_TRUE(rest);
  const auto refused = Group::create(shared, start, clock.at);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kMemoryLimit);
  EXPECT_STREQ(refused.error().what, kBudgetSpent);
  budget.give_back(MemoryUse::kConnections, 1);
  EXPECT_TRUE(Group::create(shared, start, clock.at));
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, 1));
}

TEST_F(GroupTest, AGroupWithoutAQueuePairIsNotMade) {
  one.device.queue_pair_error = Error{Errc::kExhausted, "queue pairs"};
  const auto refused = Group::create(shared, start, clock.at);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), *one.device.queue_pair_error);
  EXPECT_EQ(budget.left_bytes(), budget.limit_bytes());
  EXPECT_EQ(stats.link_groups_none.get(), 0U);
}

TEST_F(GroupTest, AGroupIsCountedFromItsBeginningToItsEnd) {
  make();
  EXPECT_EQ(stats.link_groups_none.get(), 1U);
  group.reset();
  establish();
  EXPECT_EQ(stats.link_groups_none.get(), 0U);
  EXPECT_EQ(stats.link_groups_single.get(), 1U);
  EXPECT_EQ(stats.links_active.get(), 1U);
  group.reset();
  EXPECT_EQ(stats.link_groups_single.get(), 0U);
  EXPECT_EQ(stats.links_active.get(), 0U);
}

TEST_F(GroupTest, QueuePairsGoBeforeTheMemoryThatThePeerMayWriteTo) {
  establish();
  ASSERT_TRUE(group->join(kSizes, 0));
  bool memory_was_there = false;
  queue_pair().when_destroyed = [&] {
    for (const FakeBuffer* buffer : one.device.buffers)
      memory_was_there = memory_was_there || buffer->use == rdma::BufferUse::kRmb;
  };
  group.reset();
  EXPECT_TRUE(memory_was_there);
  EXPECT_TRUE(one.device.buffers.empty());
}

TEST_F(GroupTest, TheRowIsThatOfTheGroupAndNamesItsWorker) {
  establish();
  std::array<char, 32> host{};
  host[0] = 'h';
  group->report().set_peer_host(host);
  const LinkGroupRow row = group->row(3, clock.at + std::chrono::seconds(2));
  EXPECT_EQ(row.worker, 3U);
  EXPECT_EQ(row.id, "g-1");
  EXPECT_EQ(row.peer_host, "h");
  EXPECT_EQ(row.idle_seconds, 2.0);
  EXPECT_EQ(row.links.size(), 1U);
}

// Places of connections.

TEST_F(GroupTest, AConnectionHasATokenAndAnElement) {
  establish();
  const auto member = group->join(kSizes, 0);
  ASSERT_TRUE(member);
  EXPECT_EQ(group->connections().count(), 1U);
  EXPECT_EQ(group->memory().rmbs().used_bytes(), kRingBytes);
  EXPECT_EQ(links().connections(0), 1U);
  const auto another = group->join(kSizes, 0);
  ASSERT_TRUE(another);
  EXPECT_NE(another->token, member->token);
  EXPECT_FALSE(another->element == member->element);
  group->leave(*member, 0, false, clock.at);
  EXPECT_EQ(group->connections().count(), 1U);
  EXPECT_EQ(group->memory().rmbs().used_bytes(), kRingBytes);
  EXPECT_EQ(links().connections(0), 1U);
}

TEST_F(GroupTest, WithoutATokenThereIsNoElement) {
  establish();
  while (group->connections().reserve()) continue;
  const auto refused = group->join(kSizes, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kExhausted);
  EXPECT_STREQ(refused.error().what, "connections of the link group");
  EXPECT_EQ(group->memory().rmbs().slab_count(), 0U);
}

TEST_F(GroupTest, WithoutAnElementThereIsNoToken) {
  establish();
  leave_for_rings(0);
  const auto refused = group->join(kSizes, 0);
  ASSERT_FALSE(refused);
  EXPECT_STREQ(refused.error().what, kBudgetSpent);
  EXPECT_EQ(group->connections().count(), 0U);
  EXPECT_EQ(links().connections(), 0U);
}

TEST_F(GroupTest, ThePeerIsToldOfANewSlabAtOnce) {
  establish();
  shared.changed.clear();
  ASSERT_TRUE(group->join(kSizes, 0));
  const auto told = sent<wire::ConfirmRkey>();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->rkey, group->memory().rmb_key(0, 0).rkey);
  EXPECT_EQ(shared.changed, std::vector{group.get()});
  take_keys();
  queue_pair().posted.clear();
  ASSERT_TRUE(group->join(kSizes, 0));
  EXPECT_FALSE(sent<wire::ConfirmRkey>()) << "it knows the slab";
}

TEST_F(GroupTest, ASlabThatThePeerRefusesIsUsedNoMore) {
  establish();
  ASSERT_TRUE(group->join(kSizes, 0));
  take_keys(false);
  const auto refused = group->join(kSizes, 0);
  ASSERT_FALSE(refused);
  EXPECT_STREQ(refused.error().what, kKeysRefused);
}

TEST_F(GroupTest, AGroupHasRoomWhileItsProtocolHas) {
  start.terms.max_connections = 1;
  connect();
  EXPECT_FALSE(group->has_room()) << "it is not confirmed";
  confirm(0);
  EXPECT_TRUE(group->has_room());
  ASSERT_TRUE(group->join(kSizes, 0));
  EXPECT_FALSE(group->has_room());
}

TEST_F(GroupTest, AGroupWithTooManyUnfinishedElementsEndsWithItsLastConnection) {
  establish();
  Connection& last = add_connection();
  for (unsigned i = 0; i < kQuarantinedMax; ++i) {
    EXPECT_TRUE(group->has_room()) << i;
    remove(add_connection(), true);
  }
  EXPECT_FALSE(group->has_room());
  EXPECT_TRUE(group->protocol().usable()) << "it has a connection";
  EXPECT_EQ(group->memory().rmbs().used_bytes(), (kQuarantinedMax + 1) * kRingBytes);
  remove(last);
  EXPECT_EQ(end_why(), "too many connections that the peer never finished");
  const auto told = sent<wire::DeleteLink>();
  EXPECT_TRUE(told && told->all);
}

TEST_F(GroupTest, AGroupWithFewUnfinishedElementsStays) {
  establish();
  for (unsigned i = 1; i < kQuarantinedMax; ++i) remove(add_connection(), true);
  EXPECT_TRUE(group->protocol().usable());
}

TEST_F(GroupTest, ConnectionsOfAFirstContactDoNotEndItByTheirElements) {
  connect();
  for (unsigned i = 0; i < kQuarantinedMax; ++i) remove(add_connection(), true);
  EXPECT_EQ(end_why(), "");
}

// Timers.

TEST_F(GroupTest, AnIdleGroupEndsAfterItsLinger) {
  establish();
  wait(shared.times.linger - Duration(1));
  EXPECT_TRUE(group->protocol().usable());
  wait(Duration(1));
  EXPECT_TRUE(group->protocol().terminated());
}

TEST_F(GroupTest, AConnectionKeepsItsGroup) {
  establish();
  const auto first = group->join(kSizes, 0);
  ASSERT_TRUE(first);
  take_keys();
  clock.at += shared.times.linger;
  group->leave(*first, 0, false, clock.at);
  EXPECT_EQ(timers.next_deadline(), clock.at + shared.times.linger);
  ASSERT_TRUE(group->join(kSizes, 0));
  EXPECT_EQ(timers.next_deadline(), std::nullopt);
}

TEST_F(GroupTest, AnEmptySlabIsReturnedInItsTime) {
  establish();
  std::vector<Group::Member> members;
  for (unsigned i = 0; i <= kPerSlab; ++i) {
    members.push_back(group->join(kSizes, 0).value());
    if (i % kPerSlab == 0) take_keys();
  }
  ASSERT_EQ(group->memory().rmbs().slab_count(), 2U);
  group->leave(members.back(), 0, false, clock.at);
  EXPECT_EQ(timers.next_deadline(), clock.at + shared.slab_idle);
  wait(shared.slab_idle);
  const auto asked = sent<wire::DeleteRkey>();
  ASSERT_TRUE(asked);
  wire::DeleteRkey answer = *asked;
  answer.kind = wire::LlcKind::kResponse;
  receive(answer);
  EXPECT_EQ(group->memory().rmbs().slab_count(), 1U);
}

TEST_F(GroupTest, AnEmptySendRingSlabIsReturnedInItsTime) {
  establish();
  for (unsigned i = 0; i <= kPerSlab; ++i) {
    add_connection();
    if (i % kPerSlab == 0) take_keys();
  }
  ASSERT_EQ(group->memory().send_rings().slab_count(), 2U);
  group->release_sending(*connections.back()->relay);
  EXPECT_EQ(timers.next_deadline(), clock.at + shared.slab_idle);
  queue_pair().room = queue_pair().options.send_requests;
  for (const FakeQueuePair::Posted& posted : queue_pair().posted)
    group->sender().handle_send_done(0, posted.request.id);
  wait(shared.slab_idle);
  EXPECT_EQ(group->memory().send_rings().slab_count(), 1U);
}

TEST_F(GroupTest, ADoubtIsASilentPeersTestAtOnce) {
  establish();
  group->doubt(0, smc::Doubt::kPeerGone, clock.at);
  EXPECT_EQ(timers.next_deadline(), clock.at);
  timers.run(clock.at);
  EXPECT_TRUE(sent<wire::TestLink>());
}

TEST_F(GroupTest, AnyMessageIsASignOfLife) {
  shared.times.test_link_interval = std::chrono::seconds(30);
  establish();
  Connection& connection = add_connection();
  take_keys();
  clock.at += std::chrono::seconds(20);
  receive(cdc_for(connection));
  EXPECT_EQ(group->protocol().next_deadline(), clock.at + shared.times.test_link_interval);
}

// Sending.

TEST_F(GroupTest, AConnectionSendsFromARing) {
  establish();
  const SmcRelay& relay = *add_connection().relay;
  ASSERT_TRUE(relay.buffers().send_ring());
  EXPECT_EQ(relay.buffers().send_ring_bytes().data(),
            group->memory().send_rings().bytes(*relay.buffers().send_ring()).data());
  EXPECT_EQ(relay.buffers().send_ring_bytes().size(), kRingBytes);
  EXPECT_EQ(paid_for_peer(), 0U);
}

TEST_F(GroupTest, WithoutASendRingThereIsNoSending) {
  establish();
  Connection& connection = add_connection();
  group->release_sending(*connection.relay);
  EXPECT_FALSE(connection.relay->buffers().send_ring());
  EXPECT_EQ(group->memory().send_rings().used_bytes(), 0U);
  leave_for_rings(0);
  const Result<void> taken = group->take_send_ring(*connection.relay, {{1, 1}, std::nullopt});
  ASSERT_FALSE(taken);
  EXPECT_STREQ(taken.error().what, kBudgetSpent);
  EXPECT_FALSE(connection.relay->buffers().send_ring());
}

TEST_F(GroupTest, ThePeersElementIsWrittenToByItsKey) {
  establish();
  Connection& connection = add_connection();
  ASSERT_TRUE(prepare(connection, kRingBytes));
  const smc::Connection& protocol = connection.relay->connection();
  EXPECT_EQ(protocol.peer_token(), AlertToken{0xabc});
  EXPECT_EQ(protocol.tx().element().rkey, kPeerRmb.rkey);
  EXPECT_EQ(protocol.tx().element().address.value, kPeerRmb.address.value + kRingBytes);
  EXPECT_EQ(connection.relay->buffers().named_on(), 0);
}

TEST_F(GroupTest, AnElementUnderAnUnknownKeyIsRefused) {
  establish();
  Connection& connection = add_connection();
  const Result<void> prepared =
      group->prepare_sending(*connection.relay, {{RemoteKey{77}, kPeerRmb.address}, 0, kRingBytes},
                             smc::LinkIndex{0}, AlertToken{0xabc});
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Errc::kNotFound);
  EXPECT_TRUE(group->protocol().usable());
}

TEST_F(GroupTest, WhoSendsNoMoreIsNotScheduled) {
  establish();
  Connection& connection = add_sender();
  connection.relay->connection().produced(10);
  group->sender().schedule(*connection.relay);
  group->release_sending(*connection.relay);
  queue_pair().posted.clear();
  group->sender().flush(clock.at);
  EXPECT_EQ(written_bytes(), 0U);
}

TEST_F(GroupWithAddressableMemory, TheBudgetForThePeersElementIsTakenInsteadOfARing) {
  establish_with_memory();
  Connection& as_large = add_connection();
  EXPECT_FALSE(as_large.relay->buffers().send_ring());
  EXPECT_EQ(paid_for_peer(), kRingBytes) << "as large as the own one";
  add_connection({kSizes, 2 * kRingBytes});
  EXPECT_EQ(paid_for_peer(), 3 * kRingBytes) << "the peer's is known";
  leave_for_rings(kRingBytes - 1);
  const Result<void> refused = group->take_send_ring(*as_large.relay, kSmallRings);
  ASSERT_FALSE(refused);
  EXPECT_STREQ(refused.error().what, kBudgetSpent);
}

TEST_F(GroupWithAddressableMemory, TheElementIsOpenedAndPaidForUntilItsKeyIsDeleted) {
  establish_with_memory();
  Connection& connection = add_sender();
  const SmcBuffers& buffers = connection.relay->buffers();
  EXPECT_EQ(buffers.remote().data(), queue_pair().remote[kPeerRmb.rkey].bytes.data());
  EXPECT_EQ(buffers.remote().size(), kRingBytes);
  EXPECT_EQ(connection.relay->connection().tx_window().bytes(), kRingBytes);
  remove(connection);
  EXPECT_TRUE(buffers.remote().empty());
  EXPECT_EQ(paid_for_peer(), kRingBytes) << "its pages stay";
  smc::GroupEvent deleted{EventKind::kRkeyDeleted};
  deleted.rkey = kPeerRmb.rkey;
  queue_pair().released.clear();
  group->handle_event(deleted);
  EXPECT_EQ(paid_for_peer(), 0U);
  EXPECT_EQ(queue_pair().released, std::vector{kPeerRmb.rkey});
}

TEST_F(GroupWithAddressableMemory, AnElementThatIsNotGrantedEndsNoOnlyLink) {
  establish_with_memory();
  Connection& connection = add_connection();
  queue_pair().remote.clear();
  const Result<void> prepared = prepare(connection);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Errc::kNotFound);
  EXPECT_TRUE(group->protocol().usable());
  EXPECT_EQ(stats.link_failed.get(), 0U);
}

TEST_F(GroupWithAddressableMemory, AnElementThatCannotBePaidForIsRefused) {
  establish_with_memory();
  Connection& connection = add_connection({kSizes, 1});
  leave_for_rings(0);
  const Result<void> prepared = prepare(connection);
  ASSERT_FALSE(prepared);
  EXPECT_STREQ(prepared.error().what, kBudgetSpent);
}

TEST_F(GroupWithAddressableMemory, AGroupWithTooManyIdleElementsOfThePeerHasNoRoom) {
  establish_with_memory();
  for (std::size_t offset = 0; offset <= kIdlePeerRingsMax; ++offset) {
    ASSERT_TRUE(group->has_room()) << offset;
    Connection& connection = add_connection();
    ASSERT_TRUE(prepare(connection, offset));
    remove(connection);
  }
  EXPECT_FALSE(group->has_room());
}

TEST_F(GroupWithAddressableMemory, MemoryThatCannotBeWrittenToFailsTheFirstContact) {
  connect();
  confirm(0);
  const auto refused = event(EventKind::kLinkRefused);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->reason, FallbackReason::kMemoryRegistration);
  EXPECT_FALSE(group->protocol().usable());
}

// Messages of the peer.

TEST_F(GroupTest, AMessageForAConnectionChangesItAndWakesItsOwner) {
  establish();
  Connection& connection = add_connection();
  wire::CdcMessage message = cdc_for(connection);
  message.producer = {0, 100};
  receive(message);
  EXPECT_EQ(connection.relay->connection().rx().window().bytes(), 100U);
  EXPECT_EQ(connection.owner.events, 1);
  EXPECT_EQ(stats.cdc_received.get(), 1U);
  EXPECT_EQ(stats.cdc_rejected.get(), 0U);
  EXPECT_EQ(stats.llc_rejected.get(), 0U);
}

TEST_F(GroupTest, AMessageForNobodyIsCounted) {
  establish();
  Connection& connection = add_connection();
  wire::CdcMessage message = cdc_for(connection);
  remove(connection);
  receive(message);
  const std::array<std::byte, 3> stump{wire::kCdcType};
  group->handle_message(0, stump, clock.at);
  EXPECT_EQ(connection.owner.events, 0);
  EXPECT_EQ(stats.cdc_received.get(), 2U);
  EXPECT_EQ(stats.cdc_rejected.get(), 2U);
}

TEST_F(GroupTest, AViolationIsToldToTheOwnerAndTheLog) {
  establish();
  Connection& connection = add_connection();
  wire::CdcMessage message = cdc_for(connection);
  message.producer = {0, kRingBytes + 1};
  const std::string line = line_of([&] { receive(message); });
  EXPECT_NE(line.find("event=violation group=g-1 link=0"), std::string::npos) << line;
  EXPECT_EQ(stats.cdc_rejected.get(), 1U);
  EXPECT_EQ(connection.owner.events, 1);
}

TEST_F(GroupTest, AMessageOfTheGroupIsAnswered) {
  establish();
  const std::uint64_t before = stats.llc_received.get();
  receive(wire::TestLink());
  EXPECT_EQ(stats.llc_received.get(), before + 1);
  const auto answer = sent<wire::TestLink>();
  EXPECT_TRUE(answer && answer->kind == wire::LlcKind::kResponse);
}

TEST_F(GroupTest, AMessageOfUnknownTypeIsIgnored) {
  establish();
  std::array<std::byte, 44> bytes{std::byte{0x2e}, std::byte{44}};
  group->handle_message(0, bytes, clock.at);
  group->handle_message(0, std::span(bytes).first(10), clock.at);
  EXPECT_EQ(stats.llc_rejected.get(), 2U);
  EXPECT_TRUE(group->protocol().usable());
}

TEST_F(GroupTest, AMessageThatCannotBeEndsTheGroup) {
  establish();
  std::array<std::byte, wire::kLlcBytesMax> bytes;
  const std::size_t count = wire::encode({wire::LlcVersion::k2, wire::ConfirmRkey()}, bytes);
  bytes[4] = std::byte{0xff};  // other links
  group->handle_message(0, std::span(bytes).first(count), clock.at);
  EXPECT_EQ(stats.llc_rejected.get(), 1U);
  EXPECT_EQ(end_why(), "the peer broke the protocol of links");
  const auto told = sent<wire::DeleteLink>();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->reason, wire::DeleteLinkReason::kProtocolViolation);
}

TEST_F(GroupTest, ATestTellsTheRoundTrip) {
  establish();
  group->doubt(0, smc::Doubt::kPeerGone, clock.at);
  timers.run(clock.at);
  wire::TestLink answer = sent<wire::TestLink>().value();
  answer.kind = wire::LlcKind::kResponse;
  clock.at += std::chrono::microseconds(80);
  receive(answer);
  group->handle_event(event(EventKind::kLinkTested).value());
  EXPECT_EQ(group->transport().round_trip(0), std::chrono::microseconds(80));
}

// The end.

TEST_F(GroupTest, ThePeerIsToldOfTheEnd) {
  establish();
  shared.changed.clear();
  group->terminate("the end");
  EXPECT_EQ(end_why(), "the end");
  EXPECT_EQ(shared.changed, std::vector{group.get()});
  const auto told = sent<wire::DeleteLink>();
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->all && told->orderly);
  EXPECT_EQ(told->reason, wire::DeleteLinkReason::kOperator);
}

TEST_F(GroupTest, AnEndIsCompleteWhenBothSidesHaveSaidAll) {
  establish();
  group->terminate("the end");
  EXPECT_FALSE(group->termination_complete()) << "ours is not sent";
  group->sender().flush(clock.at);
  EXPECT_FALSE(group->termination_complete()) << "the peer's has not come";
  wire::DeleteLink last;
  last.all = true;
  receive(last);
  group->sender().flush(clock.at);
  EXPECT_FALSE(group->termination_complete()) << "the queue pair has not reported ours";
  queue_pair().room = queue_pair().options.send_requests;
  EXPECT_TRUE(group->termination_complete());
}

TEST_F(GroupTest, NobodyHearsTheEndOverAFailedLink) {
  establish();
  group->handle_link_failure(0, "cut", clock.at);
  group->sender().flush(clock.at);
  EXPECT_TRUE(group->termination_complete());
}

TEST_F(GroupTest, NobodyHearsTheEndOverAQueuePairThatWasNeverConnected) {
  make();
  group->terminate("the end");
  group->sender().flush(clock.at);
  EXPECT_TRUE(group->termination_complete());
}

}  // namespace
}  // namespace fairlead::relay
