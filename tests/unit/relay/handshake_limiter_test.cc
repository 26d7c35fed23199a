#include "relay/worker/handshake_limiter.h"

#include <gtest/gtest.h>

namespace fairlead::relay {
namespace {

SocketAddress address(const char* text) { return *SocketAddress::parse(text); }

const SocketAddress kPeer = address("192.0.2.1:80");

// Goal: a session that takes over a turn counts as a concurrent handshake.
TEST(HandshakeLimiter, ATurnHandedOnIsStillTaken) {
  HandshakeLimiter turns(1);
  EXPECT_TRUE(turns.take(kPeer, 1));
  EXPECT_FALSE(turns.take(kPeer, 2));
  EXPECT_EQ(turns.give_back(kPeer), 2U);
  EXPECT_FALSE(turns.take(kPeer, 3));
}

TEST(HandshakeLimiter, PortsOfAHostShareItsTurnsAndOtherHostsDoNot) {
  HandshakeLimiter turns(1);
  EXPECT_TRUE(turns.take(kPeer, 1));
  EXPECT_FALSE(turns.take(address("192.0.2.1:81"), 2));
  EXPECT_TRUE(turns.take(address("192.0.2.2:80"), 3));
  EXPECT_TRUE(turns.take(address("[2001:db8::1]:80"), 4));
}

TEST(HandshakeLimiter, APeerWithNothingInHandIsForgotten) {
  HandshakeLimiter turns(2);
  EXPECT_TRUE(turns.take(kPeer, 1));
  EXPECT_TRUE(turns.take(kPeer, 2));
  EXPECT_EQ(turns.peer_count(), 1U);
  EXPECT_EQ(turns.give_back(kPeer), std::nullopt);
  EXPECT_EQ(turns.give_back(kPeer), std::nullopt);
  EXPECT_EQ(turns.peer_count(), 0U);
}

}  // namespace
}  // namespace fairlead::relay
