#include "relay/connection/close_order.h"

#include <gtest/gtest.h>

#include "fake_stream.h"

namespace fairlead::relay {
namespace {

using std::chrono::milliseconds;

constexpr bool kClient = true, kServer = false;

class CloseOrderTest : public testing::Test {
 protected:
  CloseOrder order;
  FakeStream net;
  TimePoint now{std::chrono::seconds(100)};
};

TEST_F(CloseOrderTest, WhoEndedFirstClosesAtOnce) {
  order.note(true, false, kServer);
  order.note(true, true, kServer);
  EXPECT_TRUE(order.may_close(net, now));
  EXPECT_FALSE(order.waiting());
}

TEST_F(CloseOrderTest, WhoEndedLastWaitsForTheFin) {
  order.note(false, true, kClient);
  order.note(true, true, kClient);
  EXPECT_FALSE(order.may_close(net, now));
  EXPECT_TRUE(order.waiting());
  EXPECT_EQ(order.next_deadline(), now + kFinWait);
  net.feed_end();
  EXPECT_TRUE(order.may_close(net, now + milliseconds(1)));
}

TEST_F(CloseOrderTest, APeerThatKeepsItsFinBackIsWaitedForWithALimit) {
  order.note(false, true, kServer);
  EXPECT_FALSE(order.may_close(net, now));
  EXPECT_FALSE(order.may_close(net, now + kFinWait - milliseconds(1)));
  EXPECT_TRUE(order.may_close(net, now + kFinWait));
}

TEST_F(CloseOrderTest, TheClientClosesWhereBothEndAtOnce) {
  CloseOrder server;
  order.note(true, true, kClient);
  server.note(true, true, kServer);
  EXPECT_TRUE(order.may_close(net, now));
  EXPECT_FALSE(server.may_close(net, now));
}

TEST_F(CloseOrderTest, NobodyWaitsBeforeAnEnd) {
  order.note(false, false, kServer);
  EXPECT_TRUE(order.may_close(net, now));
}

}  // namespace
}  // namespace fairlead::relay
