// Subnets, routes and physical networks, which determine the choice among the GIDs of a host.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <vector>

#include "rdma/verbs/loopback_alias.h"
#include "rdma/verbs/pnet.h"
#include "rdma/verbs/routes.h"

namespace fairlead::rdma::verbs {
namespace {

Gid gid(const char* text) {
  Gid made;
  EXPECT_EQ(inet_pton(AF_INET6, text, made.bytes.data()), 1) << text;
  return made;
}

TEST(Subnets, ComparePrefixesToTheBit) {
  const Gid a = gid("::ffff:10.9.0.1");
  EXPECT_TRUE(same_prefix(a, gid("::ffff:10.9.0.200"), 120));
  EXPECT_FALSE(same_prefix(a, gid("::ffff:10.9.1.1"), 120));
  EXPECT_TRUE(same_prefix(a, gid("::ffff:10.9.1.1"), 119));
  EXPECT_FALSE(same_prefix(a, gid("::ffff:10.9.2.1"), 119));
  EXPECT_TRUE(same_prefix(a, gid("2001:db8::1"), 0));
  EXPECT_TRUE(same_prefix(a, a, 128));
  EXPECT_FALSE(same_prefix(a, gid("::ffff:10.9.0.0"), 128));
}

TEST(Subnets, AnyAddressOfTheGidsInterfaceCounts) {
  const std::vector<InterfaceAddress> addresses = {{2, "eth0", gid("::ffff:10.9.0.1"), 120},
                                                   {2, "eth0", gid("::ffff:172.16.0.1"), 112},
                                                   {3, "eth1", gid("::ffff:10.8.0.1"), 120}};
  const Gid own = gid("::ffff:10.9.0.1");
  EXPECT_TRUE(subnet_covers(addresses, own, gid("::ffff:10.9.0.77")));
  EXPECT_TRUE(subnet_covers(addresses, own, gid("::ffff:172.16.44.1")));
  EXPECT_FALSE(subnet_covers(addresses, own, gid("::ffff:10.8.0.7")));
  // A pod does not have the address of its node.
  EXPECT_FALSE(subnet_covers(addresses, gid("::ffff:10.7.0.1"), gid("::ffff:10.7.0.2")));
}

TEST(Subnets, AddressesBecomeGids) {
  EXPECT_EQ(gid_from(SocketAddress::parse("10.9.0.1:80").value()), gid("::ffff:10.9.0.1"));
  EXPECT_EQ(gid_from(SocketAddress::parse("[2001:db8::1]:80").value()), gid("2001:db8::1"));
}

TEST(Subnets, TheLoopbackInterfaceIsSeen) {
  const std::vector<InterfaceAddress> addresses = interface_addresses();
  const InterfaceAddress* loopback = holder_of(addresses, gid("::ffff:127.0.0.1"));
  ASSERT_NE(loopback, nullptr);
  EXPECT_EQ(loopback->interface_name, "lo");
  EXPECT_EQ(loopback->prefix_length, 104u);
}

TEST(Routes, ToOurselvesNeedNoGateway) {
  const Result<RouteTable> routes = RouteTable::open();
  ASSERT_TRUE(routes);
  const Gid self = gid("::ffff:127.0.0.1");
  for (int i = 0; i < 3; ++i) {
    const std::optional<Route> route = routes->look_up(self, self);
    ASSERT_TRUE(route);
    EXPECT_FALSE(route->gateway);
    EXPECT_NE(route->interface_index, 0u);
  }
}

TEST(Routes, OfTwoFamiliesThereAreNone) {
  const Result<RouteTable> routes = RouteTable::open();
  ASSERT_TRUE(routes);
  EXPECT_FALSE(routes->look_up(gid("::ffff:127.0.0.1"), gid("::1")));
  // A foreign source address: the kernel answers with an error, and the next query works.
  EXPECT_FALSE(routes->look_up(gid("::ffff:127.0.0.1"), gid("::ffff:192.0.2.77")));
  EXPECT_TRUE(routes->look_up(gid("::ffff:127.0.0.1"), gid("::ffff:127.0.0.1")));
}

class Pnet : public testing::Test {
 protected:
  PnetAnswer answer() const { return pnet_of(question_, table_); }
  PnetQuestion question_{"", {}, "mlx5_0", PortNumber{1}, "ens1", "ens1"};
  std::vector<PnetEntry> table_;
};

TEST_F(Pnet, WithoutAnyKnowledgeTheRouteDecides) {
  EXPECT_EQ(answer().source, "route");
  EXPECT_TRUE(answer().ours);
  question_.rnic_interface = "";  // out of sight, as in a pod
  EXPECT_EQ(answer().source, "");
  EXPECT_TRUE(answer().ours);
}

TEST_F(Pnet, TheKernelKnowsThePort) {
  table_ = {{"NETA", "mlx5_0", PortNumber{1}, ""}, {"NETB", "mlx5_0", PortNumber{2}, ""}};
  EXPECT_EQ(answer().id, "NETA");
  EXPECT_EQ(answer().source, "kernel table");
  question_.port = PortNumber{2};
  EXPECT_EQ(answer().id, "NETB");
}

TEST_F(Pnet, TheKernelKnowsTheInterfaceOfThePort) {
  table_ = {{"NETA", "", PortNumber{0}, "ens1"}};
  EXPECT_EQ(answer().id, "NETA");
  EXPECT_EQ(answer().source, "kernel table");
}

TEST_F(Pnet, ConfigurationWins) {
  question_.configured = "NETC";
  EXPECT_EQ(answer().id, "NETC");
  EXPECT_EQ(answer().source, "configuration");
  EXPECT_TRUE(answer().ours);
}

TEST_F(Pnet, PortOfAnotherNetworkIsNotOurs) {
  table_ = {{"NETA", "mlx5_0", PortNumber{1}, ""}, {"NETB", "", PortNumber{0}, "eth0"}};
  question_.route_interface = "eth0";
  EXPECT_FALSE(answer().ours);
  EXPECT_EQ(answer().id, "NETA");
  question_.configured = "NETB";
  EXPECT_FALSE(answer().ours);
  question_.configured = "NETA";
  EXPECT_TRUE(answer().ours);
}

TEST_F(Pnet, PortThatNobodyKnowsIsNotOfAKnownNetwork) {
  table_ = {{"NETB", "", PortNumber{0}, "eth0"}};
  question_.route_interface = "eth0";
  EXPECT_FALSE(answer().ours);
  // Unless the configuration says so.
  question_.configured = "NETB";
  EXPECT_TRUE(answer().ours);
}

TEST_F(Pnet, TheNodeKnowsBetterThanTheTable) {
  question_.handed = {"NETC", {}};
  EXPECT_EQ(answer().id, "NETC");
  EXPECT_EQ(answer().source, "node");
  EXPECT_TRUE(answer().ours);
  table_ = {{"NETA", "mlx5_0", PortNumber{1}, ""}};
  EXPECT_FALSE(answer().ours);
  EXPECT_EQ(answer().id, "NETA");
}

TEST_F(Pnet, TheNodeLeavesPortsOut) {
  question_.handed = {"NETC", {{"mlx5_0", PortNumber{2}}, {"mlx5_1", PortNumber{1}}}};
  EXPECT_FALSE(answer().ours);
  EXPECT_EQ(answer().source, "node");
  question_.port = PortNumber{2};
  EXPECT_TRUE(answer().ours);
  question_.port = PortNumber{1};
  question_.configured = "NETC";
  EXPECT_FALSE(answer().ours);
  // The node's note has nothing about another network.
  question_.configured = "NETD";
  EXPECT_TRUE(answer().ours);
  EXPECT_EQ(answer().source, "configuration");
}

TEST(LoopbackAlias, IsAsked) { EXPECT_TRUE(read_loopback_alias()); }

}  // namespace
}  // namespace fairlead::rdma::verbs
