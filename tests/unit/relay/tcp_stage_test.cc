// A connection that is TCP for good: its bytes, what goes ahead of them, and how it ends.
#include "relay/connection/tcp_stage.h"

#include <cerrno>

#include "clc_text.h"
#include "stage_fixture.h"

namespace fairlead::relay {
namespace {

class TcpStageTest : public StageTest {
 protected:
  void start(Direction direction = Direction::kOutbound, UseTcp from = {}) {
    open_both(direction);
    session->report.carried(Transport::kTcp);
    begin<TcpStage>(from);
  }
  TrafficStats& traffic(Direction direction) { return stats.traffic[direction][Transport::kTcp]; }
};

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto view = std::as_bytes(std::span(text.data(), text.size()));
  return {view.begin(), view.end()};
}

TEST_F(TcpStageTest, CarriesBytesBothWaysAndCountsThem) {
  start();
  app->feed("request");
  net->feed("answer!!");
  turn();
  EXPECT_EQ(net->outgoing, "request");
  EXPECT_EQ(app->outgoing, "answer!!");
  EXPECT_EQ(traffic(Direction::kOutbound).tx_bytes.get(), 7U);
  EXPECT_EQ(traffic(Direction::kOutbound).rx_bytes.get(), 8U);
  EXPECT_TRUE(stays());
}

TEST_F(TcpStageTest, CarriesWhatHasComeBeforeItBegan) {
  open_both(Direction::kInbound);
  app->feed("banner");
  session->report.carried(Transport::kTcp);
  begin<TcpStage>(UseTcp{});
  EXPECT_EQ(net->outgoing, "banner");
}

TEST_F(TcpStageTest, GivesUnreadBytesOfThePeerBeforeAllOthers) {
  UseTcp from;
  from.unread = bytes_of("early ");
  start(Direction::kInbound, std::move(from));
  peer_says("late");
  EXPECT_EQ(app->outgoing, "early late");
}

TEST_F(TcpStageTest, DropsALateDeclineAlsoFromUnreadBytes) {
  UseTcp from;
  from.late_decline = true;
  from.unread = bytes_of(encoded(wire::Decline{}).substr(0, 9));
  start(Direction::kInbound, std::move(from));
  peer_says(encoded(wire::Decline{}).substr(9) + "data");
  EXPECT_EQ(app->outgoing, "data");
}

TEST_F(TcpStageTest, ADeclineIsForTheApplicationWhereNoneIsExpected) {
  start(Direction::kInbound);
  peer_says(encoded(wire::Decline{}));
  EXPECT_EQ(app->outgoing, encoded(wire::Decline{}));
}

// What the frames have left is passed on first, and their count goes on.
TEST_F(TcpStageTest, GoesOnWhereFramesHaveEnded) {
  open_both(Direction::kOutbound);
  UseTcp from;
  from.framed = std::make_unique<FramedRelay>(smc::Deferral::Role::kClient, smc::Deferral::Limits{},
                                              *app, *net, tcp, network.now());
  app->feed("in frames");
  app->allow(5);
  net->feed(std::string("\x01\0\0\x08unpassed", 12));
  from.framed->pump(network.now());
  ASSERT_EQ(app->outgoing, "unpas");
  net->outgoing.clear();
  session->report.carried(Transport::kTcp);
  begin<TcpStage>(from);
  app->allow(100);
  app->feed(" and over TCP");
  net->feed(" bytes");
  turn();
  EXPECT_EQ(app->outgoing, "unpassed bytes");
  EXPECT_EQ(net->outgoing, " and over TCP");
  EXPECT_EQ(traffic(Direction::kOutbound).tx_bytes.get(), 22U);
}

// A server's application may have ended before the client has handed over.
TEST_F(TcpStageTest, PassesOnAnEndThatFramesHaveRead) {
  open_both(Direction::kInbound);
  UseTcp from;
  from.framed = std::make_unique<FramedRelay>(smc::Deferral::Role::kServer, smc::Deferral::Limits{},
                                              *app, *net, tcp, network.now());
  app->feed_end();
  from.framed->pump(network.now());
  app->set_not_readable();
  ASSERT_FALSE(net->shut_down);
  session->report.carried(Transport::kTcp);
  begin<TcpStage>(from);
  EXPECT_TRUE(net->shut_down);
}

TEST_F(TcpStageTest, ALongTurnGoesOnInTheNext) {
  start();
  app_says(std::string(3 * kTurnBytesMax, 'x'));
  EXPECT_EQ(net->outgoing.size(), 3 * kTurnBytesMax);
}

TEST_F(TcpStageTest, EndsInOrderWhenBothSidesHaveEnded) {
  start();
  app->feed("bye");
  app->feed_end();
  turn();
  EXPECT_TRUE(net->shut_down);
  EXPECT_TRUE(stays());
  end_peer();
  EXPECT_TRUE(app->shut_down);
  EXPECT_EQ(end_why(), "");
}

TEST_F(TcpStageTest, IsActiveUntilItsEnd) {
  start();
  EXPECT_EQ(traffic(Direction::kOutbound).connections_active.get(), 1U);
  close();
  EXPECT_EQ(traffic(Direction::kOutbound).connections_active.get(), 0U);
}

struct LostStream : Case {
  bool of_peer;
  int error;
  const char* why;
  unsigned timeouts;
};

class TcpStageLosesAStream : public TcpStageTest, public testing::WithParamInterface<LostStream> {};

TEST_P(TcpStageLosesAStream, AndResetsTheOther) {
  start();
  FakeStream& lost = GetParam().of_peer ? *net : *app;
  lost.feed("last words");
  lost.feed_reset();
  lost.error = GetParam().error;
  turn();
  EXPECT_EQ((GetParam().of_peer ? *app : *net).outgoing, "last words");
  EXPECT_EQ(end_why(), GetParam().why);
  EXPECT_EQ(stats.peer_timeouts.get(), GetParam().timeouts);
}

INSTANTIATE_TEST_SUITE_P(
    Each, TcpStageLosesAStream,
    testing::Values(
        LostStream{"ResetByThePeer", true, ECONNRESET, "reset", 0},
        LostStream{"ResetByTheApplication", false, ECONNRESET, "reset", 0},
        LostStream{"PeerSilent", true, ETIMEDOUT, "the peer's host no longer answers", 1},
        LostStream{"HostUnreachable", true, EHOSTUNREACH, "the peer's host no longer answers", 1},
        LostStream{"NetworkUnreachable", true, ENETUNREACH, "the peer's host no longer answers", 1},
        LostStream{"ApplicationSilent", false, ETIMEDOUT, "reset", 0}),
    CaseName());

// A reset waits for a reader that stalls, but not without end.
TEST_F(TcpStageTest, AResetReachesAReaderThatStalls) {
  start();
  net->allow(3);
  app->feed("last words");
  app->feed_reset();
  turn();
  EXPECT_TRUE(stays());
  ASSERT_TRUE(timers.next_deadline());
  wait(kResetDelay);
  EXPECT_EQ(end_why(), "reset");
}

// Shorter ones do not pay for that.
TEST_F(TcpStageTest, IsResetIfTheProcessDiesOnceItHasLasted) {
  for (const Direction direction : {Direction::kOutbound, Direction::kInbound}) {
    start(direction);
    wait(kLastingFrom - Duration(1));
    EXPECT_FALSE(app->resets_if_lost || net->resets_if_lost);
    wait(Duration(1));
    EXPECT_TRUE(app->resets_if_lost && net->resets_if_lost);
  }
}

struct Probing : Case {
  Direction direction;
  int probed;
};

class TcpStageProbes : public TcpStageTest, public testing::WithParamInterface<Probing> {};

TEST_P(TcpStageProbes, ADialledPeerAfterAWhile) {
  start(GetParam().direction);
  wait(kLastingFrom - Duration(1));
  EXPECT_EQ(network.probed, 0);
  wait(Duration(1));
  EXPECT_EQ(network.probed, GetParam().probed);
}

INSTANTIATE_TEST_SUITE_P(Each, TcpStageProbes,
                         testing::Values(Probing{"Outbound", Direction::kOutbound, 1},
                                         Probing{"Inbound", Direction::kInbound, 0}),
                         CaseName());

}  // namespace
}  // namespace fairlead::relay
