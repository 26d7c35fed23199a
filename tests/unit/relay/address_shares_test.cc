#include "relay/group/address_shares.h"

#include <gtest/gtest.h>

namespace fairlead::relay {
namespace {

SocketAddress at(const char* text) { return SocketAddress::parse(text).value(); }

TEST(AddressShares, CountByAddress) {
  AddressShares shares;
  shares.add(at("10.0.0.1:5"));
  shares.add(at("10.0.0.1:6"));
  EXPECT_EQ(shares.count(at("10.0.0.1:7")), 2u);
  EXPECT_EQ(shares.count(at("10.0.0.2:5")), 0u);
  shares.remove(at("10.0.0.1:8"));
  shares.remove(at("10.0.0.1:9"));
  EXPECT_EQ(shares.count(at("10.0.0.1:7")), 0u);
  EXPECT_EQ(shares.block_count(), 0u);
}

// The owner of a /64 can take any of its addresses.
TEST(AddressShares, AnIpv6BlockHasOneShare) {
  AddressShares shares;
  for (const char* address : {"[2001:db8::1]:1", "[2001:db8::ffff:0:0:2]:1", "[2001:db8::3]:2"})
    shares.add(at(address));
  EXPECT_EQ(shares.count(at("[2001:db8::abcd]:9")), 3u);
  EXPECT_EQ(shares.count(at("[2001:db8:0:1::1]:1")), 0u);
  EXPECT_EQ(shares.block_count(), 1u);
}

TEST(AddressShares, AMappedAddressCountsAsIpv4) {
  AddressShares shares;
  shares.add(at("[::ffff:10.0.0.1]:1"));
  EXPECT_EQ(shares.count(at("10.0.0.1:2")), 1u);
  EXPECT_EQ(shares.count(at("[::ffff:10.0.0.2]:1")), 0u);
}

}  // namespace
}  // namespace fairlead::relay
