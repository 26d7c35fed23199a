// Subnets of a connection's interface, for version 1 of SMC-R.
#include "devices/local_subnets.h"

#include <gtest/gtest.h>

namespace fairlead {
namespace {

using rdma::verbs::InterfaceAddress;

InterfaceAddress entry(unsigned interface_index, const char* address, unsigned prefix_length,
                       unsigned vlan = 0) {
  const auto parsed = SocketAddress::parse(address);
  EXPECT_TRUE(parsed) << address;
  return {interface_index, "eth", rdma::verbs::gid_from(*parsed), prefix_length, vlan};
}

SocketAddress local(const char* text) { return *SocketAddress::parse(text); }

TEST(LocalSubnets, Ipv4HasTheSubnetOfTheAddress) {
  const std::vector<InterfaceAddress> addresses = {entry(1, "127.0.0.1:0", 104),
                                                   entry(2, "10.9.3.77:0", 116, 42),
                                                   entry(2, "10.8.0.1:0", 120, 42)};
  const auto subnets = subnets_of(addresses, local("10.9.3.77:80"));
  ASSERT_TRUE(subnets);
  EXPECT_EQ(subnets->area.ipv4_network, (std::array<std::uint8_t, 4>{10, 9, 0, 0}));
  EXPECT_EQ(subnets->area.ipv4_length_bits, 20);
  EXPECT_EQ(subnets->area.ipv6.count, 0);
  EXPECT_EQ(subnets->vlan, 42);
}

TEST(LocalSubnets, Ipv6HasThoseOfTheInterfaceThatReachBeyondTheSegment) {
  const std::vector<InterfaceAddress> addresses = {
      entry(2, "[fe80::1]:0", 64),   entry(2, "[fd00:1::1]:0", 64), entry(2, "[fd00:2::1]:0", 48),
      entry(2, "[fd00:1::2]:0", 64), entry(3, "[fd00:3::1]:0", 64), entry(2, "10.9.0.1:0", 120)};
  const auto subnets = subnets_of(addresses, local("[fd00:2::1]:80"));
  ASSERT_TRUE(subnets);
  EXPECT_EQ(subnets->area.ipv4_length_bits, 0);
  ASSERT_EQ(subnets->area.ipv6.count, 2);
  EXPECT_EQ(subnets->area.ipv6.items[0], (wire::Ipv6Prefix{{0xfd, 0, 0, 2}, 48}));
  EXPECT_EQ(subnets->area.ipv6.items[1], (wire::Ipv6Prefix{{0xfd, 0, 0, 1}, 64}));
}

TEST(LocalSubnets, APrefixListHasALimitAndKeepsThatOfTheConnection) {
  std::vector<InterfaceAddress> addresses;
  for (unsigned i = 0; i < 20; ++i)
    addresses.push_back(entry(2, ("[fd00:" + std::to_string(i) + "::1]:0").c_str(), 64));
  const auto subnets = subnets_of(addresses, local("[fd00:19::1]:80"));
  ASSERT_TRUE(subnets);
  EXPECT_EQ(subnets->area.ipv6.count, wire::kIpv6PrefixesMax);
  EXPECT_EQ(subnets->area.ipv6.items[0], (wire::Ipv6Prefix{{0xfd, 0, 0, 0x19}, 64}));
}

TEST(LocalSubnets, AnAddressOfNoInterfaceHasNone) {
  EXPECT_FALSE(subnets_of({}, local("10.9.0.1:80")));
  EXPECT_FALSE(LocalSubnets()(local("192.0.2.1:80")));
}

TEST(LocalSubnets, TheLoopbackInterfaceOfThisProcessIsKnown) {
  const auto subnets = LocalSubnets()(local("127.0.0.1:80"));
  ASSERT_TRUE(subnets);
  EXPECT_EQ(subnets->area.ipv4_network, (std::array<std::uint8_t, 4>{127, 0, 0, 0}));
  EXPECT_EQ(subnets->area.ipv4_length_bits, 8);
}

}  // namespace
}  // namespace fairlead
