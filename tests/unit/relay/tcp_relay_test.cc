#include "relay/tcp_relay.h"

#include <gtest/gtest.h>

#include <array>

#include "fake_stream.h"
#include "wire/clc.h"

namespace fairlead::relay {
namespace {

using Step = HalfRelay::Step;

class TcpRelayTest : public testing::Test {
 protected:
  FakeStream app, net;
  TcpRelayResources shared;
  TcpRelay relay{app, net, shared};
};

TEST_F(TcpRelayTest, CopiesBothWays) {
  app.feed("request");
  net.feed("reply");
  EXPECT_EQ(relay.pump(), Step::kIdle);
  EXPECT_EQ(net.outgoing, "request");
  EXPECT_EQ(app.outgoing, "reply");
  EXPECT_EQ(relay.towards_net().bytes(), 7U);
}

TEST_F(TcpRelayTest, GivesTheFirstBytesBeforeAllOthers) {
  const std::string early = "220 ready";
  relay.towards_app().prepend(std::as_bytes(std::span(early.data(), early.size())));
  net.feed(" more");
  relay.pump();
  EXPECT_EQ(app.outgoing, "220 ready more");
}

std::string late_decline() {
  std::array<std::byte, wire::kDeclineBytesMax> bytes;
  const std::size_t count = wire::encode(wire::Decline{}, bytes);
  return std::string(reinterpret_cast<const char*>(bytes.data()), count);
}

TEST_F(TcpRelayTest, DropsADeclineThatCrossedOurs) {
  const std::string decline = late_decline();
  relay.towards_app().skip_late_decline();
  net.feed(decline.substr(0, 5));
  EXPECT_EQ(relay.pump(), Step::kIdle);
  net.feed(decline.substr(5) + "data");
  relay.pump();
  net.feed(decline);  // the second one is the application's
  relay.pump();
  EXPECT_EQ(app.outgoing, "data" + decline);
}

TEST_F(TcpRelayTest, GivesAllBytesWhereNoDeclineCrossed) {
  relay.towards_app().skip_late_decline();
  const std::string begins_alike = late_decline().substr(0, 7);
  net.feed(begins_alike);
  net.feed_end();
  relay.pump();
  EXPECT_EQ(app.outgoing, begins_alike);
  EXPECT_TRUE(app.shut_down);
}

TEST_F(TcpRelayTest, KeepsWhatTheOtherSideDoesNotTakeYet) {
  app.feed(std::string(1000, 'a'));
  net.allow(300);
  EXPECT_EQ(relay.pump(), Step::kIdle);
  EXPECT_EQ(net.outgoing.size(), 300U);
  net.allow(10000);
  app.feed("tail");
  relay.pump();
  EXPECT_EQ(net.outgoing, std::string(1000, 'a') + "tail");
}

TEST_F(TcpRelayTest, ReadsNoFurtherWhileTheOtherSideIsBlocked) {
  net.allow(0);
  net.set_not_writable();
  app.feed("x");
  relay.pump();
  EXPECT_EQ(app.reads, 0);
}

TEST_F(TcpRelayTest, PassesAFinBehindTheLastByteAndKeepsTheOtherDirection) {
  app.feed("last words");
  app.feed_end();
  net.allow(4);
  relay.pump();
  EXPECT_FALSE(net.shut_down);
  net.allow(100);
  relay.pump();
  EXPECT_EQ(net.outgoing, "last words");
  EXPECT_TRUE(net.shut_down);
  net.feed("late reply");
  EXPECT_EQ(relay.pump(), Step::kIdle);
  EXPECT_EQ(app.outgoing, "late reply");
  net.feed_end();
  EXPECT_EQ(relay.pump(), Step::kEnded);
  EXPECT_TRUE(app.shut_down);
}

TEST_F(TcpRelayTest, AResetEndsBothDirections) {
  app.feed_reset();
  EXPECT_EQ(relay.pump(), Step::kReset);
}

TEST_F(TcpRelayTest, GivesOthersTheirTurn) {
  app.feed(std::string(4 * kTurnBytesMax, 'x'));
  EXPECT_EQ(relay.pump(), Step::kMore);
  EXPECT_GE(net.outgoing.size(), kTurnBytesMax);
  EXPECT_LT(net.outgoing.size(), 2 * kTurnBytesMax);
}

}  // namespace
}  // namespace fairlead::relay
