// A link group as the façade of its parts: its beginning, places of connections and their way to
// the peer's memory, messages of the peer, and its end.

#include "relay/group/group.h"

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
  // Connections need one slab, and a part of another.
  void establish_two_slabs() {
    establish();
    for (unsigned i = 0; i <= kPerSlab; ++i) {
      add_connection();
      if (i % kPerSlab == 0) take_keys();
    }
  }
  wire::CdcMessage cdc_for(const Connection& to) {
    wire::CdcMessage message;
    message.sequence = 1;
    message.token = to.member.token;
    return message;
  }
};

class EstablishedGroupTest : public GroupTest {
 protected:
  void SetUp() override { establish(); }
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
  EXPECT_EQ(error_of(Group::create(shared, start, clock.at)), kNoBudget);
  budget.give_back(MemoryUse::kConnections, 1);
  EXPECT_TRUE(Group::create(shared, start, clock.at));
  ASSERT_TRUE(budget.take(MemoryUse::kConnections, 1));
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

TEST_F(EstablishedGroupTest, QueuePairsGoBeforeTheMemoryThatThePeerMayWriteTo) {
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

TEST_F(EstablishedGroupTest, TheRowIsThatOfTheGroupAndNamesItsWorker) {
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

TEST_F(EstablishedGroupTest, AConnectionHasATokenAndAnElement) {
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

TEST_F(EstablishedGroupTest, WithoutATokenThereIsNoElement) {
  while (group->connections().reserve()) continue;
  const Error expected{Errc::kExhausted, "connections of the link group"};
  EXPECT_EQ(error_of(group->join(kSizes, 0)), expected);
  EXPECT_EQ(group->memory().rmbs().slab_count(), 0U);
}

TEST_F(EstablishedGroupTest, ThePeerIsToldOfANewSlabAtOnce) {
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

TEST_F(EstablishedGroupTest, ASlabThatThePeerRefusesIsUsedNoMore) {
  ASSERT_TRUE(group->join(kSizes, 0));
  take_keys(false);
  EXPECT_EQ(error_of(group->join(kSizes, 0)), (Error{Errc::kPeerRefused, kKeysRefused}));
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

TEST_F(EstablishedGroupTest, AGroupWithTooManyUnfinishedElementsEndsWithItsLastConnection) {
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

TEST_F(EstablishedGroupTest, AGroupWithFewUnfinishedElementsStays) {
  for (unsigned i = 1; i < kQuarantinedMax; ++i) remove(add_connection(), true);
  EXPECT_TRUE(group->protocol().usable());
}

TEST_F(GroupTest, ConnectionsOfAFirstContactDoNotEndItByTheirElements) {
  connect();
  for (unsigned i = 0; i < kQuarantinedMax; ++i) remove(add_connection(), true);
  EXPECT_EQ(end_why(), "");
}

// Timers.

TEST_F(EstablishedGroupTest, AnIdleGroupEndsAfterItsLinger) {
  wait(shared.times.linger - Duration(1));
  EXPECT_TRUE(group->protocol().usable());
  wait(Duration(1));
  EXPECT_TRUE(group->protocol().terminated());
}

TEST_F(EstablishedGroupTest, AConnectionKeepsItsGroup) {
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
  establish_two_slabs();
  ASSERT_EQ(group->memory().rmbs().slab_count(), 2U);
  group->leave(connections.back()->member, 0, false, clock.at);
  EXPECT_EQ(timers.next_deadline(), clock.at + shared.slab_idle);
  wait(shared.slab_idle);
  wire::DeleteRkey answer = sent<wire::DeleteRkey>().value();
  answer.kind = wire::LlcKind::kResponse;
  receive(answer);
  EXPECT_EQ(group->memory().rmbs().slab_count(), 1U);
}

TEST_F(GroupTest, AnEmptySendRingSlabIsReturnedInItsTime) {
  establish_two_slabs();
  ASSERT_EQ(group->memory().send_rings().slab_count(), 2U);
  group->release_sending(*connections.back()->relay);
  EXPECT_EQ(timers.next_deadline(), clock.at + shared.slab_idle);
  queue_pair().room = queue_pair().options.send_requests;
  for (const FakeQueuePair::Posted& posted : queue_pair().posted)
    group->sender().handle_send_done(0, posted.request.id);
  wait(shared.slab_idle);
  EXPECT_EQ(group->memory().send_rings().slab_count(), 1U);
}

TEST_F(EstablishedGroupTest, ADoubtIsASilentPeersTestAtOnceAndItsAnswerTellsTheRoundTrip) {
  group->doubt(0, smc::Doubt::kPeerGone, clock.at);
  EXPECT_EQ(timers.next_deadline(), clock.at);
  timers.run(clock.at);
  std::optional<wire::TestLink> test = sent<wire::TestLink>();
  ASSERT_TRUE(test);
  test->kind = wire::LlcKind::kResponse;
  clock.at += std::chrono::microseconds(80);
  receive(*test);
  const auto tested = event(EventKind::kLinkTested);
  ASSERT_TRUE(tested);
  group->handle_event(*tested);
  EXPECT_EQ(group->transport().round_trip(0), std::chrono::microseconds(80));
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

TEST_F(EstablishedGroupTest, AConnectionSendsFromARing) {
  const SmcRelay& relay = *add_connection().relay;
  ASSERT_TRUE(relay.buffers().send_ring());
  EXPECT_EQ(relay.buffers().send_ring_bytes().data(),
            group->memory().send_rings().bytes(*relay.buffers().send_ring()).data());
  EXPECT_EQ(relay.buffers().send_ring_bytes().size(), kRingBytes);
  EXPECT_EQ(paid_for_peer(), 0U);
}

TEST_F(GroupWithAddressableMemory, TheBudgetForThePeersElementIsTakenInsteadOfARing) {
  establish_with_memory();
  Connection& as_large = add_connection();
  EXPECT_FALSE(as_large.relay->buffers().send_ring());
  EXPECT_EQ(paid_for_peer(), kRingBytes) << "as large as the own one";
  add_connection({kSizes, 2 * kRingBytes});
  EXPECT_EQ(paid_for_peer(), 3 * kRingBytes) << "the peer's is known";
  leave_for_rings(kRingBytes - 1);
  EXPECT_STREQ(error_of(group->take_send_ring(*as_large.relay, kSmallRings)).what, kBudgetSpent);
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
  EXPECT_EQ(error_of(prepare(connection)).code, Errc::kNotFound);
  EXPECT_TRUE(connection.relay->buffers().remote().empty());
  EXPECT_TRUE(group->protocol().usable());
  EXPECT_EQ(stats.link_failed.get(), 0U);
}

TEST_F(GroupWithAddressableMemory, AnElementThatCannotBePaidForIsRefused) {
  establish_with_memory();
  Connection& connection = add_connection({kSizes, 1});
  leave_for_rings(0);
  EXPECT_STREQ(error_of(prepare(connection)).what, kBudgetSpent);
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

TEST_F(EstablishedGroupTest, AMessageForNobodyIsCounted) {
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

TEST_F(EstablishedGroupTest, AViolationIsToldToTheOwnerAndTheLog) {
  Connection& connection = add_connection();
  wire::CdcMessage message = cdc_for(connection);
  message.producer = {0, kRingBytes + 1};
  const std::string line = line_of([&] { receive(message); });
  EXPECT_NE(line.find("event=violation group=g-1 link=0"), std::string::npos) << line;
  EXPECT_EQ(stats.cdc_rejected.get(), 1U);
  EXPECT_EQ(connection.owner.events, 1);
}

TEST_F(EstablishedGroupTest, AMessageOfTheGroupIsAnswered) {
  const std::uint64_t before = stats.llc_received.get();
  receive(wire::TestLink());
  EXPECT_EQ(stats.llc_received.get(), before + 1);
  const auto answer = sent<wire::TestLink>();
  EXPECT_TRUE(answer && answer->kind == wire::LlcKind::kResponse);
}

TEST_F(EstablishedGroupTest, AMessageOfUnknownTypeIsIgnored) {
  std::array<std::byte, 44> bytes{std::byte{0x2e}, std::byte{44}};
  group->handle_message(0, bytes, clock.at);
  group->handle_message(0, std::span(bytes).first(10), clock.at);
  EXPECT_EQ(stats.llc_rejected.get(), 2U);
  EXPECT_TRUE(group->protocol().usable());
}

TEST_F(EstablishedGroupTest, AMessageThatCannotBeEndsTheGroup) {
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

// The end.

TEST_F(EstablishedGroupTest, ThePeerIsToldOfTheEnd) {
  shared.changed.clear();
  group->terminate("the end");
  EXPECT_EQ(end_why(), "the end");
  EXPECT_EQ(shared.changed, std::vector{group.get()});
  const auto told = sent<wire::DeleteLink>();
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->all && told->orderly);
  EXPECT_EQ(told->reason, wire::DeleteLinkReason::kOperator);
}

TEST_F(EstablishedGroupTest, NobodyHearsTheEndOverAFailedLinkOrOneThatWasNeverConnected) {
  group->handle_link_failure(0, "cut", clock.at);
  group->sender().flush(clock.at);
  EXPECT_TRUE(group->termination_complete());
  group.reset();
  make();
  group->terminate("the end");
  group->sender().flush(clock.at);
  EXPECT_TRUE(group->termination_complete());
}

}  // namespace
}  // namespace fairlead::relay
