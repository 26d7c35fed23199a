// The links of a group and the connections on them: a second link, what becomes of connections when
// a link fails, and what changes of ports and devices mean.

#include <algorithm>

#include "group_fixture.h"

namespace fairlead::relay {
namespace {

using EventKind = smc::GroupEvent::Kind;

// The peer's first RMB on a second link.
constexpr smc::RmbKey kPeerRmbThere{RemoteKey{19}, RemoteAddress{0x90000}};
constexpr wire::RkeyEntry kKeyThere{kPeerRmb.rkey, kPeerRmbThere.rkey, kPeerRmbThere.address};

class GroupOfOneLink : public GroupFixture {};

class GroupOfTwoLinks : public GroupFixture {
 protected:
  GroupOfTwoLinks() : GroupFixture(2) {}
};

class GroupWithTwoLinks : public GroupOfTwoLinks {
 protected:
  void SetUp() override { establish_two_links({kKeyThere}); }
};

class GroupOfTwoLinksWithAddressableMemory : public GroupWithAddressableMemory {
 protected:
  GroupOfTwoLinksWithAddressableMemory() : GroupWithAddressableMemory(2) {}

  void SetUp() override {
    establish_with_memory();
    answer_add_link({kKeyThere});
    grant(1, kPeerRmbThere);
    confirm(1);
    ASSERT_EQ(links().active_count(), 2U);
  }
};

TEST_F(GroupOfOneLink, AGroupEndsWithItsOnlyLink) {
  establish();
  group->handle_link_failure(0, "cut", clock.at);
  EXPECT_EQ(end_why(), "cut");
  EXPECT_TRUE(queue_pair().failed);
  EXPECT_EQ(stats.link_failed.get(), 1U);
  group->handle_link_failure(0, "cut again", clock.at);
  EXPECT_EQ(stats.link_failed.get(), 1U);
}

TEST_F(GroupOfOneLink, TheQueuePairOfAnEndedGroupIsNoFailure) {
  establish();
  group->terminate("the end");
  group->handle_link_failure(0, "the peer took its queue pair away", clock.at);
  EXPECT_TRUE(queue_pair().failed);
  EXPECT_EQ(stats.link_failed.get(), 0U);
}

TEST_F(GroupOfTwoLinks, ASecondLinkIsOfferedFromAnotherPort) {
  establish();
  ASSERT_TRUE(group->join(kSmallRings.own, 0));
  const auto offer = sent<wire::AddLink>();
  ASSERT_TRUE(offer);
  EXPECT_EQ(offer->gid, gid_of(2));
  EXPECT_EQ(offer->queue_pair, queue_pair(1).number());
  EXPECT_EQ(offer->first_psn, queue_pair(1).first_psn());
  answer_add_link();
  ASSERT_TRUE(queue_pair(1).peer);
  EXPECT_EQ(queue_pair(1).peer->queue_pair, QpNumber{501});
  EXPECT_TRUE(sent<wire::ConfirmLink>(1));
  confirm(1);
  EXPECT_TRUE(links().active(1));
  EXPECT_EQ(stats.links_active.get(), 2U);
}

TEST_F(GroupOfTwoLinks, ASecondLinkComesWithTheKeysOfTheMemory) {
  connect();
  ASSERT_TRUE(group->join(kSmallRings.own, 0));
  confirm(0);
  const auto offer = sent<wire::AddLink>();
  ASSERT_TRUE(offer);
  ASSERT_EQ(offer->rkeys.view().size(), 1U);
  EXPECT_EQ(offer->rkeys.view()[0].known_rkey, group->memory().rmb_key(0, 0).rkey);
  EXPECT_EQ(offer->rkeys.view()[0].new_rkey, group->memory().rmb_key(0, 1).rkey);
}

TEST_F(GroupOfTwoLinks, WithoutAPortOrAQueuePairThereIsNoSecondLink) {
  for (const bool port : {false, true}) {
    connect();
    one.reachability.encrypted = two.reachability.encrypted = !port;
    one.device.queue_pair_error = Error{Errc::kExhausted, "queue pairs"};
    confirm(0);
    EXPECT_TRUE(event(EventKind::kLinkNotAdded)) << port;
    EXPECT_FALSE(sent<wire::AddLink>()) << port;
    EXPECT_TRUE(group->protocol().usable()) << port;
    one.device.queue_pair_error.reset();
  }
}

TEST_F(GroupOfTwoLinks, AQueuePairThatCannotConnectIsNoSecondLink) {
  connect();
  one.device.connect_error = Error{Errc::kPeerGone, "nobody there"};
  confirm(0);
  answer_add_link();
  const auto end = event(EventKind::kLinkNotAdded);
  ASSERT_TRUE(end);
  EXPECT_STREQ(end->why, "nobody there");
  EXPECT_FALSE(group->transport().works(1));
  EXPECT_TRUE(group->protocol().usable());
  EXPECT_EQ(stats.link_failed.get(), 1U);
}

TEST_F(GroupWithTwoLinks, ConnectionsGoToTheOtherLink) {
  Connection& connection = add_sender();
  group->handle_link_failure(0, "cut", clock.at);
  EXPECT_TRUE(group->protocol().usable());
  EXPECT_TRUE(queue_pair(0).failed);
  EXPECT_EQ(connection.relay->link(), 1);
  EXPECT_EQ(connection.relay->connection().tx().element().rkey, kPeerRmbThere.rkey);
  EXPECT_EQ(connection.relay->connection().tx().element().address, kPeerRmbThere.address);
  EXPECT_EQ(connection.owner.events, 1);
  EXPECT_EQ(stats.link_failed.get(), 1U);
  EXPECT_EQ(stats.link_moved.get(), 1U);
  EXPECT_EQ(stats.connections_moved.get(), 1U);
  EXPECT_EQ(links().connections(1), 1U);
  queue_pair(1).posted.clear();
  group->sender().flush(clock.at);
  const auto& posted = queue_pair(1).posted;
  EXPECT_TRUE(std::any_of(posted.begin(), posted.end(), [](const auto& each) {
    return wire::is_cdc(each.message);
  })) << "the peer is told where it goes on";
}

// Linux repeats a lost consumer update only when something is written.
TEST_F(GroupWithTwoLinks, APartOfThePeersElementIsKeptForTheMove) {
  EXPECT_EQ(written_at_most(), kRingBytes - smc::kSwitchReserveBytes);
}

TEST_F(GroupOfOneLink, NothingIsKeptForAMoveThatCannotBe) {
  establish();
  EXPECT_EQ(written_at_most(), kRingBytes);
}

TEST_F(GroupWithTwoLinks, ConnectionsOfTheOtherLinkStayAsTheyAre) {
  Connection& connection = add_sender();
  group->handle_link_failure(1, "cut", clock.at);
  EXPECT_EQ(connection.relay->link(), 0);
  EXPECT_EQ(connection.owner.events, 0);
  EXPECT_EQ(stats.connections_moved.get(), 0U);
}

TEST_F(GroupWithTwoLinks, ALinkThatThePeerDeletesIsReleased) {
  wire::DeleteLink message;
  message.link = links()[0]->number();
  receive(message);
  EXPECT_FALSE(links()[0]);
  EXPECT_TRUE(queue_pair(0).failed);
  EXPECT_EQ(stats.link_failed.get(), 0U) << "it has not failed by itself";
  EXPECT_TRUE(links().active(1));
}

TEST_F(GroupWithTwoLinks, TheLastMessageOfAConnectionThatIsGoneIsRepeatedOverTheOtherLink) {
  Connection& connection = add_sender();
  connection.relay->connection().abort();
  group->sender().schedule(*connection.relay);
  group->sender().flush(clock.at);
  const std::vector<std::byte> last = queue_pair(0).posted.back().message;
  ASSERT_TRUE(wire::is_cdc(last));
  remove(connection);
  group->handle_link_failure(0, "cut", clock.at);
  group->sender().flush(clock.at);
  const auto& posted = queue_pair(1).posted;
  EXPECT_TRUE(std::any_of(posted.begin(), posted.end(),
                          [&](const auto& each) { return each.message == last; }));
}

TEST_F(GroupWithTwoLinks, ConnectionsThatKnowNoElementMoveInSilence) {
  Connection& connection = add_connection();
  group->handle_link_failure(0, "cut", clock.at);
  EXPECT_EQ(connection.relay->link(), 1);
  EXPECT_EQ(connection.owner.events, 0);
}

TEST_F(GroupOfTwoLinks, AConnectionWhosePeerNamedNoKeyThereIsReset) {
  establish_two_links();
  Connection& connection = add_sender();
  const std::string line = line_of([&] { group->handle_link_failure(0, "cut", clock.at); });
  EXPECT_NE(line.find("event=connection_left_behind group=g-1"), std::string::npos) << line;
  EXPECT_TRUE(connection.relay->connection().closing().reset());
  EXPECT_EQ(connection.owner.events, 1);
  EXPECT_EQ(connection.relay->link(), 1) << "the peer is told over it";
  EXPECT_TRUE(group->protocol().usable());
}

TEST_F(GroupOfTwoLinksWithAddressableMemory, ConnectionsWriteToTheOtherView) {
  Connection& connection = add_sender();
  group->handle_link_failure(0, "cut", clock.at);
  EXPECT_EQ(connection.relay->buffers().remote().data(),
            queue_pair(1).remote[kPeerRmbThere.rkey].bytes.data());
  EXPECT_EQ(connection.relay->connection().tx_window().bytes(), kRingBytes)
      << "nothing is kept for a peer that repeats everything";
}

TEST_F(GroupOfTwoLinksWithAddressableMemory, WithoutTheMemoryTheOtherLinkIsNoUse) {
  Connection& connection = add_sender();
  const std::byte* const before = connection.relay->buffers().remote().data();
  queue_pair(1).remote.clear();
  group->handle_link_failure(0, "cut", clock.at);
  EXPECT_EQ(end_why(), "the peer's memory is out of reach there");
  EXPECT_EQ(connection.relay->buffers().remote().data(), before) << "it may still write there";
  EXPECT_EQ(connection.owner.events, 0);
}

TEST_F(GroupOfTwoLinksWithAddressableMemory, ADeadLinkIsFoundWhenAnElementIsOpened) {
  Connection& connection = add_connection();
  queue_pair(0).remote_error = Error{Errc::kWouldBlock, "the peer cannot be reached"};
  ASSERT_TRUE(prepare(connection));
  EXPECT_EQ(connection.relay->link(), 1);
  EXPECT_TRUE(queue_pair(0).failed);
  EXPECT_EQ(connection.relay->buffers().remote().data(),
            queue_pair(1).remote[kPeerRmbThere.rkey].bytes.data());
  EXPECT_EQ(connection.relay->connection().tx().element().rkey, kPeerRmbThere.rkey);
}

TEST_F(GroupOfTwoLinksWithAddressableMemory, ElementsThatNoLinkOpensEndTheGroup) {
  Connection& connection = add_connection();
  for (const smc::LinkIndex link : {smc::LinkIndex{0}, smc::LinkIndex{1}})
    queue_pair(link).remote_error = Error{Errc::kWouldBlock, "the peer cannot be reached"};
  EXPECT_EQ(error_of(prepare(connection)).code, Errc::kWouldBlock);
  EXPECT_FALSE(group->protocol().usable());
}

// Ports and devices.

TEST_F(GroupWithTwoLinks, ALinkFailsWithItsPortWhichIsReallyDown) {
  group->handle_port(one.link, PortNumber{1}, Group::PortChange::kDown, clock.at);
  two.device.port_list[0].state = rdma::PortState::kDown;
  group->handle_port(two.link, PortNumber{1}, Group::PortChange::kDown, clock.at);
  EXPECT_EQ(links().active_count(), 2U) << "old news, and the same port of another device";
  one.device.port_list[0].state = rdma::PortState::kDown;
  group->handle_port(one.link, PortNumber{1}, Group::PortChange::kDown, clock.at);
  EXPECT_FALSE(links().active(0));
  EXPECT_TRUE(links().active(1));
  EXPECT_STREQ(event(EventKind::kLinkLost).value().why, "its port went down");
}

TEST_F(GroupOfOneLink, NewsOfPortsAreForGroupsOfMoreLinks) {
  establish();
  one.device.port_list[0].state = rdma::PortState::kDown;
  group->handle_port(one.link, PortNumber{1}, Group::PortChange::kDown, clock.at);
  EXPECT_TRUE(links().active(0)) << "it finds out by itself what becomes of it";
  const auto changes = shared.changed.size();
  group->handle_port(one.link, PortNumber{2}, Group::PortChange::kUp, clock.at);
  EXPECT_EQ(shared.changed.size(), changes) << "no other link is wanted";
}

class GroupThatLacksALink : public GroupOfTwoLinks {
 protected:
  // No second link could be made, and now it could.
  void SetUp() override {
    connect();
    one.reachability.encrypted = two.reachability.encrypted = true;
    confirm(0);
    one.reachability.encrypted = two.reachability.encrypted = false;
    ASSERT_FALSE(sent<wire::AddLink>());
  }
};

TEST_F(GroupThatLacksALink, APortThatComesUpBringsALinkUnlessItLeadsElsewhere) {
  two.reachability.pnets[PortNumber{1}] = "OTHER";
  group->handle_port(two.link, PortNumber{1}, Group::PortChange::kUp, clock.at);
  group->handle_port(one.link, PortNumber{3}, Group::PortChange::kUp, clock.at);
  EXPECT_FALSE(sent<wire::AddLink>());
  group->handle_port(one.link, PortNumber{2}, Group::PortChange::kUp, clock.at);
  EXPECT_TRUE(sent<wire::AddLink>());
}

TEST_F(GroupThatLacksALink, AnotherPortIsTriedWhenOneOfTheNetworkGoesDown) {
  two.reachability.pnets[PortNumber{1}] = "OTHER";
  two.device.port_list[0].state = rdma::PortState::kDown;
  group->handle_port(two.link, PortNumber{1}, Group::PortChange::kDown, clock.at);
  EXPECT_FALSE(sent<wire::AddLink>());
  two.reachability.pnets[PortNumber{1}] = "NET";
  group->handle_port(two.link, PortNumber{1}, Group::PortChange::kDown, clock.at);
  EXPECT_TRUE(sent<wire::AddLink>());
}

TEST_F(GroupWithTwoLinks, AFullGroupWantsNoOtherLinkWhenAPortGoesDown) {
  queue_pair(0).posted.clear();
  two.device.port_list[0].state = rdma::PortState::kDown;
  group->handle_port(two.link, PortNumber{1}, Group::PortChange::kDown, clock.at);
  EXPECT_FALSE(sent<wire::AddLink>());
}

TEST_F(GroupOfTwoLinks, AClientNamesAllPortsWhereALinkMayBegin) {
  start.role = smc::GroupRole::kClient;
  establish();
  group->handle_port(one.link, PortNumber{2}, Group::PortChange::kUp, clock.at);
  const auto wish = sent<wire::ReqAddLink>();
  ASSERT_TRUE(wish);
  const auto gids = wish->gids.view();
  EXPECT_EQ(std::vector(gids.begin(), gids.end()), (std::vector{gid_of(1), gid_of(2), gid_of(3)}));
}

TEST_F(GroupOfTwoLinks, LinksFailWithTheirDevice) {
  one.device.port_list.pop_back();
  establish_two_links({kKeyThere});
  ASSERT_EQ(&group->transport().device(1), &two.link);
  group->handle_device_down(two.link, clock.at);
  EXPECT_TRUE(links().active(0));
  EXPECT_FALSE(links().active(1));
  group->handle_device_down(one.link, clock.at);
  EXPECT_EQ(end_why(), "the device has failed");
}

}  // namespace
}  // namespace fairlead::relay
