// The queue pairs of a group's links: on which device and port each is, what becomes of one that
// fails, and where a further link may begin.

#include "relay/link_transport.h"

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

}  // namespace
}  // namespace fairlead::relay
