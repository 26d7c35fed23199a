// The link groups of a worker: how many there may be, what their events mean to connections and to
// those that wait for them, and when they are destroyed.

#include "relay/group/link_group_registry.h"

#include "driver_parts.h"

namespace fairlead::relay {
namespace {

using EventKind = smc::GroupEvent::Kind;

constexpr unsigned kWorker = 3;

class LinkGroupRegistryTest : public testing::Test, protected WorkerResources {
 protected:
  Result<Group*> try_create(std::uint8_t peer, const char* address, smc::GroupRole role) {
    GroupStart start;
    start.device = &one.link;
    start.port = one.device.port_list[0];
    return registry.create({role, PeerId{{peer}}, gid_of(peer)}, *SocketAddress::parse(address),
                           start);
  }
  Group& create(std::uint8_t peer = 1) {
    return *try_create(peer, "192.0.2.1:0", smc::GroupRole::kServer).value();
  }
  // … whose link is connected and asked for confirmation.
  Group& create_connected() {
    Group& group = create();
    EXPECT_TRUE(group.connect_first_link(peer_endpoint(kPeerHost, 500)));
    group.start_first_contact(clock.at);
    registry.flush(clock.at);
    registry.handle_events();
    return group;
  }
  SmcRelay& add_connection(Group& group, CountingOwner& owner) {
    const AlertToken token = *group.connections().reserve();
    SmcRelay& relay = *relays.emplace_back(std::make_unique<SmcRelay>(
        token, smc::ElementId{}, element, SmcRelay::Place{&group, 0, &owner}));
    group.connections().set(token, &relay);
    return relay;
  }
  void handle(Group& group, const smc::GroupEvent& event) {
    group.protocol().output().emit(event);
    shared.changed.push_back(&group);
    registry.handle_events();
  }
  void handle(Group& group, EventKind kind) { handle(group, smc::GroupEvent{kind}); }
  FakeQueuePair& queue_pair() { return *one.device.queue_pairs.at(0); }
  // The group is terminated here, and everybody has heard of it.
  void terminate(Group& group) {
    group.terminate("a test");
    registry.handle_events();
  }

  DriverDevice one{"one", {active_port(1, 1)}};
  std::vector<std::byte> element{16384};
  std::vector<std::unique_ptr<SmcRelay>> relays;
  LinkGroupRegistry registry{shared, kWorker, 7};
};

TEST_F(LinkGroupRegistryTest, AGroupHasTheNameOfItsWorkerAndANumber) {
  EXPECT_EQ(create(1).id(), "g-3.1");
  EXPECT_EQ(create(2).id(), "g-3.2");
  EXPECT_EQ(registry.peers().count(), 2U);
  EXPECT_EQ(stats.link_added.get(), 2U);
  const std::vector<LinkGroupRow> rows = registry.rows(clock.at);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].id, "g-3.2");
  EXPECT_EQ(rows[1].worker, kWorker);
}

TEST_F(LinkGroupRegistryTest, TheKeyDecidesOnRoleAndPeer) {
  for (const smc::GroupRole role : {smc::GroupRole::kServer, smc::GroupRole::kClient}) {
    const auto group = try_create(9, "192.0.2.1:0", role);
    ASSERT_TRUE(group);
    EXPECT_EQ((*group)->protocol().role(), role);
    EXPECT_EQ(one.device.queue_pairs.back()->options.peer, PeerId{{9}});
  }
}

TEST_F(LinkGroupRegistryTest, AGroupThatCannotBeMadeLeavesNothing) {
  one.device.queue_pair_error = Error{Errc::kExhausted, "queue pairs"};
  EXPECT_EQ(error_of(try_create(1, "192.0.2.1:0", smc::GroupRole::kServer)),
            *one.device.queue_pair_error);
  EXPECT_EQ(registry.peers().count(), 0U);
  EXPECT_EQ(stats.link_added.get(), 0U);
  EXPECT_EQ(stats.link_groups_none.get(), 0U);
  EXPECT_EQ(budget.left_bytes(), budget.limit_bytes());
}

TEST_F(LinkGroupRegistryTest, TheGroupsWithOneAddressHaveALimitForEachRole) {
  const std::size_t of_client =
      groups_per_address_max(smc::GroupRole::kServer, budget.limit_bytes());
  for (std::size_t i = 0; i < of_client; ++i)
    ASSERT_TRUE(try_create(1, "192.0.2.1:0", smc::GroupRole::kServer)) << i;
  EXPECT_STREQ(error_of(try_create(2, "192.0.2.1:0", smc::GroupRole::kServer)).what,
               "link groups with one address");
  EXPECT_TRUE(try_create(2, "192.0.2.2:0", smc::GroupRole::kServer));
  EXPECT_TRUE(try_create(2, "192.0.2.1:0", smc::GroupRole::kClient));
}

TEST_F(LinkGroupRegistryTest, AConfirmedGroupTellsConnectionsAndThoseThatWait) {
  Group& group = create(1);
  CountingOwner member, waiting, elsewhere;
  add_connection(group, member);
  ASSERT_TRUE(registry.wait_for(group, waiting));
  ASSERT_TRUE(registry.wait_for(create(2), elsewhere));
  handle(group, EventKind::kLinkConfirmed);
  EXPECT_EQ(member.confirmed, 1);
  EXPECT_EQ(waiting.confirmed, 1);
  handle(group, EventKind::kLinkConfirmed);
  EXPECT_EQ(member.confirmed, 2);
  EXPECT_EQ(waiting.confirmed, 1) << "it waits no longer";
  EXPECT_EQ(elsewhere.confirmed, 0);
}

TEST_F(LinkGroupRegistryTest, ATerminatedGroupTellsConnectionsAndThoseThatWait) {
  Group& group = create();
  CountingOwner member, waiting;
  add_connection(group, member);
  ASSERT_TRUE(registry.wait_for(group, waiting));
  handle(group, EventKind::kTerminated);
  EXPECT_EQ(member.lost, 1);
  EXPECT_EQ(waiting.lost, 1);
  EXPECT_EQ(stats.link_deleted.get(), 1U);
}

TEST_F(LinkGroupRegistryTest, ARefusedFirstContactTellsItsConnectionsWhy) {
  Group& group = create();
  CountingOwner member;
  add_connection(group, member);
  smc::GroupEvent event{EventKind::kLinkRefused};
  event.reason = FallbackReason::kRmbeEyecatcher;
  handle(group, event);
  EXPECT_EQ(member.refused, FallbackReason::kRmbeEyecatcher);
  EXPECT_EQ(member.lost, 0);
}

// A refusal is for those that have seats in the group. Others learn from its end that they have to
// make the first contact themselves.
TEST_F(LinkGroupRegistryTest, WhoWaitsForARefusedFirstContactHearsOfItsEnd) {
  Group& group = create();
  CountingOwner waiting;
  ASSERT_TRUE(registry.wait_for(group, waiting));
  handle(group, EventKind::kLinkRefused);
  EXPECT_EQ(waiting.refused, std::nullopt);
  handle(group, EventKind::kTerminated);
  EXPECT_EQ(waiting.lost, 1);
}

TEST_F(LinkGroupRegistryTest, NewsOfKeysIsForConnectionsAlone) {
  Group& group = create();
  CountingOwner member, waiting;
  add_connection(group, member);
  ASSERT_TRUE(registry.wait_for(group, waiting));
  handle(group, EventKind::kRmbAnnounced);
  EXPECT_EQ(member.told, 1);
  handle(group, EventKind::kRmbRefused);
  EXPECT_EQ(member.told, 2);
  EXPECT_EQ(waiting.told, 0);
  handle(group, EventKind::kLinkConfirmed);
  EXPECT_EQ(waiting.confirmed, 1) << "it still waits";
}

TEST_F(LinkGroupRegistryTest, EventsOfLinksAreCountedAndConcernNobody) {
  struct Counted {
    EventKind kind;
    const Counter* counter;
  };
  Group& group = create();
  CountingOwner member;
  add_connection(group, member);
  const std::uint64_t created = stats.link_added.get();
  for (const Counted& counted : {Counted{EventKind::kLinkAdded, &stats.link_added},
                                 Counted{EventKind::kLinkDeleted, &stats.link_deleted},
                                 Counted{EventKind::kLinkTested, &stats.link_test_ok},
                                 Counted{EventKind::kLinkDead, &stats.link_test_timeout}}) {
    const std::uint64_t before = counted.counter->get();
    handle(group, counted.kind);
    EXPECT_EQ(counted.counter->get(), before + 1);
  }
  handle(group, EventKind::kLinkLost);
  handle(group, EventKind::kLinkNotAdded);
  handle(group, EventKind::kRkeyDeleted);
  EXPECT_EQ(stats.link_added.get(), created + 1);
  EXPECT_EQ(member.events + member.confirmed + member.lost + member.told, 0);
  EXPECT_EQ(member.refused, std::nullopt);
}

TEST_F(LinkGroupRegistryTest, ATestTellsTheRoundTripOfItsLink) {
  Group& group = create();
  smc::GroupEvent event{EventKind::kLinkTested};
  event.round_trip = std::chrono::microseconds(80);
  handle(group, event);
  EXPECT_EQ(group.transport().round_trip(0), event.round_trip);
}

// An owner that changes a group while it hears of an event would otherwise run without end.
TEST_F(LinkGroupRegistryTest, WhatChangesWhileEventsAreHandledWaits) {
  Group& group = create();
  CountingOwner member;
  member.when_confirmed = [&] { shared.changed.push_back(&group); };
  add_connection(group, member);
  EXPECT_FALSE(registry.events_pending());
  handle(group, EventKind::kLinkConfirmed);
  EXPECT_EQ(member.confirmed, 1);
  EXPECT_TRUE(registry.events_pending());
  registry.handle_events();
  EXPECT_EQ(member.confirmed, 1) << "there was no further event";
  EXPECT_FALSE(registry.events_pending());
}

TEST_F(LinkGroupRegistryTest, WhoStopsWaitingHearsNothing) {
  Group& group = create();
  CountingOwner first, second;
  ASSERT_TRUE(registry.wait_for(group, first));
  ASSERT_TRUE(registry.wait_for(group, second));
  registry.stop_waiting(first);
  handle(group, EventKind::kTerminated);
  EXPECT_EQ(first.lost, 0);
  EXPECT_EQ(second.lost, 1);
}

TEST_F(LinkGroupRegistryTest, NotTooManyWait) {
  Group& group = create();
  CountingOwner first;
  std::vector<CountingOwner> others(kWaitersMax);
  ASSERT_TRUE(registry.wait_for(group, first));
  for (std::size_t i = 1; i < kWaitersMax; ++i)
    ASSERT_TRUE(registry.wait_for(group, others[i])) << i;
  EXPECT_FALSE(registry.wait_for(group, others[0]));
  registry.stop_waiting(first);
  EXPECT_TRUE(registry.wait_for(group, others[0]));
}

TEST_F(LinkGroupRegistryTest, WhatIsDueGoesToTheDevices) {
  create_connected();
  ASSERT_EQ(queue_pair().posted.size(), 1U);
  EXPECT_FALSE(registry.flush(clock.at)) << "there is nothing more";
}

TEST_F(LinkGroupRegistryTest, AClosedGroupWaitsForThePeersLastWords) {
  Group& group = create_connected();
  terminate(group);
  registry.destroy_closed();
  EXPECT_EQ(registry.peers().count(), 1U) << "ours are not sent";
  registry.flush(clock.at);
  registry.destroy_closed();
  EXPECT_EQ(registry.peers().count(), 1U) << "the peer's have not come";
  ASSERT_TRUE(timers.next_deadline());
  EXPECT_LT(*timers.next_deadline(), clock.at + kClosingWait) << "it is looked at again";
  wire::DeleteLink last;
  last.all = true;
  group.protocol().handle_llc(0, {wire::LlcVersion::k2, last}, clock.at);
  registry.destroy_closed();
  EXPECT_EQ(registry.peers().count(), 1U) << "the queue pair has not reported ours";
  queue_pair().room = queue_pair().options.send_requests;
  registry.destroy_closed();
  EXPECT_EQ(registry.peers().count(), 0U);
  EXPECT_TRUE(one.device.queue_pairs.empty());
  EXPECT_EQ(budget.left_bytes(), budget.limit_bytes());
}

TEST_F(LinkGroupRegistryTest, OnlyAClosedGroupIsDestroyedWhenItsWaitIsOver) {
  Group& group = create_connected();
  clock.at += kClosingWait;
  registry.destroy_closed();
  EXPECT_EQ(registry.peers().count(), 1U) << "it runs";
  terminate(group);
  clock.at += kClosingWait - Duration(1);
  registry.destroy_closed();
  EXPECT_EQ(registry.peers().count(), 1U);
  clock.at += Duration(1);
  registry.destroy_closed();
  EXPECT_EQ(registry.peers().count(), 0U);
}

TEST_F(LinkGroupRegistryTest, AClosedGroupStaysWhileItHasConnections) {
  Group& group = create_connected();
  CountingOwner member;
  const SmcRelay& relay = add_connection(group, member);
  terminate(group);
  clock.at += kClosingWait;
  registry.destroy_closed();
  EXPECT_EQ(registry.peers().count(), 1U);
  group.connections().release(relay.connection().local_token());
  shared.changed.push_back(&group);
  registry.destroy_closed();
  EXPECT_EQ(registry.peers().count(), 0U);
  EXPECT_FALSE(registry.events_pending()) << "its changes are gone with it";
}

TEST_F(LinkGroupRegistryTest, AtTheEndEveryPeerIsTold) {
  Group& group = create_connected();
  queue_pair().posted.clear();
  registry.terminate_all("the end");
  EXPECT_TRUE(group.protocol().terminated());
  ASSERT_EQ(queue_pair().posted.size(), 1U);
  EXPECT_TRUE(queue_pair().last<wire::DeleteLink>().value().all);
  registry.terminate_all("once more");
  EXPECT_EQ(queue_pair().posted.size(), 1U);
}

}  // namespace
}  // namespace fairlead::relay
