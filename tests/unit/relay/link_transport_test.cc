// The queue pairs of a group's links: on which device and port each is, what becomes of one that
// fails, and where a further link may begin.

#include "relay/group/link_transport.h"

#include "driver_parts.h"

namespace fairlead::relay {
namespace {

class LinkTransportTest : public DriverTest {
 protected:
  LinkTransportTest() : DriverTest(2) {}

  // A link of `links` between that port and the peer's host, with its queue pair.
  void add_link(smc::LinkIndex link, const LinkTransport::PortCandidate& at, std::uint8_t host,
                smc::LinkState state = smc::LinkState::kActive) {
    const rdma::PeerEndpoint peer = peer_endpoint(host, 500U + link);
    ASSERT_TRUE(create(link, at));
    ASSERT_TRUE(transport.connect(link, peer));
    links[link].emplace(links.next_number(), transport.identity(link), clock.at);
    links[link]->set_peer(identity_of(peer));
    links[link]->set_state(state);
  }
  std::optional<LinkTransport::PortCandidate> choose_towards(std::uint8_t host) {
    return transport.choose_port({identity_of(peer_endpoint(host, 600)), {}, {}}, links);
  }

  smc::LinkSet links{2, 255, clock.at};
};

TEST_F(LinkTransportTest, AQueuePairIsMadeForThePortAndThePeer) {
  ASSERT_TRUE(create(0, one.at(1)));
  const rdma::QueuePairOptions& options = queue_pair(0).options;
  EXPECT_NE(options.domain, nullptr);
  EXPECT_NE(options.receive_queue, nullptr);
  EXPECT_EQ(options.port, PortNumber{2});
  EXPECT_EQ(options.gid, gid_of(2));
  EXPECT_EQ(options.peer, start.peer);
  EXPECT_FALSE(options.prefer_roce_v1);
  EXPECT_EQ(transport.identity(0).gid, gid_of(2));
  EXPECT_EQ(transport.identity(0).queue_pair, queue_pair(0).number());
  EXPECT_TRUE(transport.works(0));
  EXPECT_FALSE(transport.works(1));
  EXPECT_TRUE(transport.is_at(0, one.link, PortNumber{2}));
  EXPECT_FALSE(transport.is_at(0, one.link, PortNumber{1}));
}

TEST_F(LinkTransportTest, Version1PrefersRoceV1) {
  start.terms.version = 1;
  ASSERT_TRUE(create(0, one.at()));
  EXPECT_TRUE(queue_pair(0).options.prefer_roce_v1);
}

TEST_F(LinkTransportTest, AQueuePairTakesNoMoreRequestsThanItsDevice) {
  ASSERT_TRUE(create(0, one.at()));
  EXPECT_EQ(queue_pair(0).options.send_requests, kSendRequestsPerLink);
  two.device.able.send_requests_max = 64;
  ASSERT_TRUE(create(1, two.at()));
  EXPECT_EQ(queue_pair(1).options.send_requests, 64U);
  EXPECT_EQ(transport.send_requests_max(1), 64U);
}

TEST_F(LinkTransportTest, LinksOnOneDeviceShareItsDomainAndQueue) {
  ASSERT_TRUE(create(0, one.at(0)));
  ASSERT_TRUE(create(1, one.at(1)));
  ASSERT_TRUE(create(2, two.at()));
  EXPECT_EQ(queue_pair(0).options.domain, queue_pair(1).options.domain);
  EXPECT_EQ(queue_pair(0).options.receive_queue, queue_pair(1).options.receive_queue);
  EXPECT_NE(queue_pair(0).options.domain, queue_pair(2).options.domain);
  EXPECT_NE(queue_pair(0).options.receive_queue, queue_pair(2).options.receive_queue);
  EXPECT_EQ(transport.attachment(1), 0U);
  EXPECT_EQ(transport.attachment(2), 1U);
  EXPECT_EQ(&transport.device(2), &two.link);
}

TEST_F(LinkTransportTest, AQueueThatServesOneQueuePairIsMadeForEachLink) {
  one.device.able.shared_receive_queues = false;
  ASSERT_TRUE(create(0, one.at(0)));
  ASSERT_TRUE(create(1, one.at(1)));
  EXPECT_NE(queue_pair(0).options.receive_queue, queue_pair(1).options.receive_queue);
}

TEST_F(LinkTransportTest, AQueueThatCrossesDomainsServesAllGroups) {
  const auto domain = one.device.create_protection_domain();
  ASSERT_TRUE(domain);
  auto pool = ReceivePool::create(one.link.receives, one.device, **domain, kPoolOfGroup, budget);
  ASSERT_TRUE(pool);
  one.link.shared_pool = pool->get();
  const std::size_t buffers = one.device.buffers.size();
  ASSERT_TRUE(create(0, one.at()));
  EXPECT_EQ(queue_pair(0).options.receive_queue, &(*pool)->queue());
  EXPECT_EQ(one.device.buffers.size(), buffers);
  transport.destroy(0);
}

TEST_F(LinkTransportTest, WhatADeviceCannotMakeIsToldAndCostsNothing) {
  one.device.able.shared_receive_queues = false;
  const Error error{Errc::kExhausted, "what the device says"};
  for (std::optional<Error>* fails : {&one.device.domain_error, &one.device.queue_error,
                                      &one.device.buffer_error, &one.device.queue_pair_error}) {
    *fails = error;
    EXPECT_EQ(error_of(create(0, one.at())), error);
    EXPECT_EQ(transport.queue_pair(0), nullptr);
    EXPECT_FALSE(transport.works(0));
    EXPECT_TRUE(one.link.queue_pairs.empty());
    EXPECT_TRUE(one.device.buffers.empty());
    EXPECT_EQ(budget.left_bytes(), budget.limit_bytes());
    fails->reset();
  }
  EXPECT_TRUE(create(0, one.at()));
}

TEST_F(LinkTransportTest, AGroupWithoutBudgetForItsMessagesGetsNoLink) {
  const auto rest = MemoryCharge::take(budget, MemoryUse::kConnections, budget.left_bytes());
  ASSERT_TRUE(rest);
  EXPECT_STREQ(error_of(create(0, one.at())).what, kBudgetSpent);
  EXPECT_FALSE(transport.uses(one.link));
}

TEST_F(LinkTransportTest, AGroupIsOnAsManyDevicesAsThereAreLinks) {
  std::vector<std::unique_ptr<DriverDevice>> others;
  for (std::size_t i = 0; i <= smc::kLinksMax; ++i)
    others.push_back(std::make_unique<DriverDevice>("other", std::vector{active_port(1, 50)}));
  LinkTransport own(shared, start, nullptr);
  GroupMemory own_memory(shared, start, protocol, own);
  for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
    ASSERT_TRUE(own.create(i, others[i]->at(), own_memory));
  EXPECT_EQ(error_of(own.create(0, others.back()->at(), own_memory)).code, Errc::kExhausted);
  EXPECT_FALSE(own.uses(others.back()->link));
  EXPECT_TRUE(own.uses(others.front()->link));
}

TEST_F(LinkTransportTest, WhatArrivesIsFoundByTheQueuePairUntilItIsDestroyed) {
  ASSERT_TRUE(create(0, one.at(0)));
  ASSERT_TRUE(create(1, one.at(1)));
  const QpNumber number = queue_pair(1).number();
  ASSERT_EQ(one.link.queue_pairs.count(number), 1U);
  EXPECT_EQ(one.link.queue_pairs.at(number).link, 1);
  EXPECT_TRUE(transport.fail(1));
  EXPECT_EQ(one.link.queue_pairs.count(number), 1U);
  transport.destroy(1);
  EXPECT_EQ(one.link.queue_pairs.count(number), 0U);
  EXPECT_EQ(one.link.queue_pairs.size(), 1U);
  EXPECT_EQ(one.device.queue_pairs.size(), 1U);
}

TEST_F(LinkTransportTest, AFailedQueuePairKeepsItsName) {
  add_link(0, one.at(), kPeerHost);
  const rdma::PeerEndpoint peer = peer_endpoint(kPeerHost, 500);
  EXPECT_TRUE(transport.fail(0));
  EXPECT_TRUE(queue_pair(0).failed);
  EXPECT_FALSE(transport.fail(0));
  EXPECT_FALSE(transport.works(0));
  EXPECT_FALSE(transport.fail(1));
  EXPECT_EQ(transport.link_to(peer.queue_pair, peer.gid, peer.mac), smc::LinkIndex{0});
  ASSERT_TRUE(create(0, two.at()));  // the index is used again
  EXPECT_TRUE(transport.works(0));
  EXPECT_EQ(transport.link_to(peer.queue_pair, peer.gid, peer.mac), std::nullopt);
  EXPECT_TRUE(one.device.queue_pairs.empty());
}

TEST_F(LinkTransportTest, AFurtherLinkKnowsWhetherAGatewayIsOnItsWay) {
  const smc::LinkPeer peer{identity_of(peer_endpoint(kPeerHost, 500)), PacketSeq{77}, Mtu::k4096};
  ASSERT_TRUE(create(0, one.at()));
  for (const std::optional<bool> straight :
       {std::optional<bool>(true), std::optional<bool>(false), std::optional<bool>()}) {
    one.reachability.straight = straight;
    ASSERT_TRUE(transport.connect(0, peer));
    EXPECT_EQ(queue_pair(0).peer->direct, straight.value_or(true));
  }
  EXPECT_EQ(queue_pair(0).peer->queue_pair, QpNumber{500});
  EXPECT_EQ(queue_pair(0).peer->first_psn, PacketSeq{77});
  EXPECT_EQ(queue_pair(0).peer->mtu, Mtu::k4096);
  EXPECT_EQ(transport.peer(0).gid, gid_of(kPeerHost));
}

TEST_F(LinkTransportTest, TheMacOfThePeerCountsInVersion1) {
  add_link(0, one.at(), kPeerHost);
  const Gid gid = gid_of(kPeerHost);
  const Mac other = mac_of(99);
  EXPECT_EQ(transport.link_to(QpNumber{500}, gid, other), smc::LinkIndex{0});
  EXPECT_TRUE(transport.leads_to(gid, other, links));
  start.terms.version = 1;
  EXPECT_EQ(transport.link_to(QpNumber{500}, gid, other), std::nullopt);
  EXPECT_FALSE(transport.leads_to(gid, other, links));
  EXPECT_EQ(transport.link_to(QpNumber{500}, gid, mac_of(kPeerHost)), smc::LinkIndex{0});
}

TEST_F(LinkTransportTest, OnlyActiveLinksLeadToThePeer) {
  add_link(0, one.at(), kPeerHost, smc::LinkState::kActivating);
  EXPECT_FALSE(transport.leads_to(gid_of(kPeerHost), mac_of(kPeerHost), links));
  links[0]->set_state(smc::LinkState::kActive);
  EXPECT_TRUE(transport.leads_to(gid_of(kPeerHost), mac_of(kPeerHost), links));
  EXPECT_FALSE(transport.leads_to(gid_of(kPeerHost + 1), mac_of(kPeerHost), links));
}

TEST_F(LinkTransportTest, PortsOfTheFirstDeviceAreTheFirstCandidates) {
  shared.devices = {&two.link, &one.link};
  ASSERT_TRUE(create(0, one.at()));
  const auto all = transport.candidates();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].device, &one.link);
  EXPECT_EQ(all[1].port.number, PortNumber{2});
  EXPECT_EQ(all[2].device, &two.link);
}

TEST_F(LinkTransportTest, NoCandidateIsUnusableOrLeadsElsewhere) {
  ASSERT_TRUE(create(0, one.at()));
  rdma::Port& port = one.device.port_list[1];
  port.state = rdma::PortState::kDown;
  EXPECT_EQ(transport.candidates().size(), 2U);
  port = active_port(2, 2);
  port.fault = rdma::PortFault::kNoGid;
  EXPECT_EQ(transport.candidates().size(), 2U);
  port = active_port(2, 2);
  port.gid = {};
  EXPECT_EQ(transport.candidates().size(), 2U);
  port = active_port(2, 2);
  one.reachability.pnets[PortNumber{2}] = "OTHER";
  EXPECT_EQ(transport.candidates().size(), 2U);
  two.reachability.pnets.clear();
  EXPECT_EQ(transport.candidates().size(), 1U);
}

TEST_F(LinkTransportTest, AFurtherLinkBeginsAtAPortWithoutOne) {
  add_link(0, one.at(0), kPeerHost);
  const auto second = choose_towards(kPeerHost + 1);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->device, &one.link);
  EXPECT_EQ(second->port.number, PortNumber{2});
  add_link(1, *second, kPeerHost + 1);
  const auto third = choose_towards(kPeerHost + 2);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->device, &two.link);
}

// A server does not know the peer's port yet, and asks for the way to the one that it knows.
TEST_F(LinkTransportTest, AClientAsksForTheWayToTheNewPortAndAServerToTheOldOne) {
  add_link(0, one.at(0), kPeerHost);
  (void)choose_towards(kPeerHost + 1);
  EXPECT_EQ(one.reachability.asked_for_peer, gid_of(kPeerHost));
  start.role = smc::GroupRole::kClient;
  (void)choose_towards(kPeerHost + 1);
  EXPECT_EQ(one.reachability.asked_for_peer, gid_of(kPeerHost + 1));
}

TEST_F(LinkTransportTest, APortWhoseLinkCanBeSparedIsBetterThanAnother) {
  shared.devices = {&one.link};
  add_link(0, one.at(0), kPeerHost);
  add_link(1, one.at(1), kPeerHost);  // shares the peer's port with an older one
  const auto third = choose_towards(kPeerHost + 1);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->port.number, PortNumber{2});
}

TEST_F(LinkTransportTest, OnePortCarriesTwoLinksOnlyWhereTheOtherSideHasTwo) {
  shared.devices = {&one.link};
  one.device.port_list[1].state = rdma::PortState::kDown;
  add_link(0, one.at(0), kPeerHost);
  EXPECT_TRUE(choose_towards(kPeerHost + 1));
  EXPECT_TRUE(choose_towards(kPeerHost)) << "a server does not know the client's port";
  start.role = smc::GroupRole::kClient;
  EXPECT_TRUE(choose_towards(kPeerHost + 1));
  EXPECT_FALSE(choose_towards(kPeerHost)) << "neither side has a second port";
}

TEST_F(LinkTransportTest, BesideTwoLinksThatAreApartAPortCarriesOneOnly) {
  shared.devices = {&one.link};
  add_link(0, one.at(0), kPeerHost);
  add_link(1, one.at(1), kPeerHost + 1);
  one.device.port_list[1].state = rdma::PortState::kDown;
  EXPECT_FALSE(choose_towards(kPeerHost + 2));
  start.role = smc::GroupRole::kClient;
  EXPECT_FALSE(choose_towards(kPeerHost + 2));
}

TEST_F(LinkTransportTest, WithoutAFittingPortThereIsNoFurtherLink) {
  shared.devices = {&one.link};
  add_link(0, one.at(0), kPeerHost);
  one.reachability.encrypted = true;
  EXPECT_FALSE(choose_towards(kPeerHost + 1));
}

}  // namespace
}  // namespace fairlead::relay
