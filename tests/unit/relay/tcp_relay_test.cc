#include "relay/pipes/tcp_relay.h"

#include <sys/socket.h>

#include "base/linux/handle.h"
#include "clc_text.h"
#include "wire/frame.h"

namespace fairlead::relay {
namespace {

using Step = HalfRelay::Step;

// The sockets of both streams, to splice from and to, and their other ends.
struct Sockets {
  Sockets(FakeStream& of_app, FakeStream& of_net) {
    of_app.fd = connect(app, app_peer);
    of_net.fd = connect(net, net_peer);
  }
  static int connect(FileDescriptor& end, FileDescriptor& other) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    end = FileDescriptor(ends[0]);
    other = FileDescriptor(ends[1]);
    return ends[0];
  }
  FileDescriptor app, app_peer, net, net_peer;
};

class TcpRelayTest : public testing::Test {
 protected:
  FakeStream app, net;
  TcpRelayResources shared;
  // As long as there is more to do at once.
  Step pump_all() {
    Step step = relay.pump(now);
    while (step == Step::kMore) step = relay.pump(now);
    return step;
  }

  TcpRelay relay{app, net, shared};
  TimePoint now{std::chrono::hours(1)};
};

TEST_F(TcpRelayTest, CopiesBothWays) {
  app.feed("request");
  net.feed("reply");
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  EXPECT_EQ(net.outgoing, "request");
  EXPECT_EQ(app.outgoing, "reply");
  EXPECT_EQ(relay.towards_net().bytes(), 7U);
}

TEST_F(TcpRelayTest, DropsADeclineThatCrossedOurs) {
  const std::string decline = encoded(wire::Decline{});
  relay.towards_app().skip_late_decline(false);
  net.feed(decline.substr(0, 5));
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  net.feed(decline.substr(5) + "data");
  relay.pump(now);
  net.feed(decline);  // the second one is the application's
  relay.pump(now);
  EXPECT_EQ(app.outgoing, "data" + decline);
}

TEST_F(TcpRelayTest, GivesAllBytesWhereNoDeclineCrossed) {
  relay.towards_app().skip_late_decline(false);
  const std::string begins_alike = encoded(wire::Decline{}).substr(0, 7);
  net.feed(begins_alike);
  net.feed_end();
  relay.pump(now);
  EXPECT_EQ(app.outgoing, begins_alike);
  EXPECT_TRUE(app.shut_down);
}

std::string late_return(std::uint64_t position) {
  const auto frame = wire::encode_position(wire::FrameType::kReturn, position);
  return std::string(reinterpret_cast<const char*>(frame.data()), frame.size());
}

TEST_F(TcpRelayTest, AReturnThatCrossedOurDeclineIsNoData) {
  relay.towards_app().skip_late_decline(true);
  const std::string back = late_return(7);
  net.feed(back.substr(0, 3));
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  net.feed(back.substr(3));
  EXPECT_EQ(relay.pump(now), Step::kReset);
  EXPECT_EQ(app.outgoing, "");
}

TEST_F(TcpRelayTest, BehindADeclineEverythingIsData) {
  relay.towards_app().skip_late_decline(true);
  net.feed(encoded(wire::Decline{}));
  relay.pump(now);
  net.feed(late_return(7));
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  net.feed(encoded(wire::Decline{}));
  relay.pump(now);
  EXPECT_EQ(app.outgoing, late_return(7) + encoded(wire::Decline{}));
}

TEST_F(TcpRelayTest, GivesBytesThatOnlyBeginLikeAReturn) {
  for (const bool framed : {false, true}) {
    net.outgoing.clear();
    TcpRelay other(app, net, shared);
    other.towards_app().skip_late_decline(framed);
    const std::string begins_alike = framed ? late_return(7).substr(0, 3) + "x" : late_return(7);
    app.outgoing.clear();
    net.feed(begins_alike);
    other.pump(now);
    EXPECT_EQ(app.outgoing, begins_alike) << framed;
  }
}

TEST_F(TcpRelayTest, KeepsWhatTheOtherSideDoesNotTakeYet) {
  app.feed(std::string(1000, 'a'));
  net.allow(300);
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  EXPECT_EQ(net.outgoing.size(), 300U);
  net.allow(10000);
  app.feed("tail");
  relay.pump(now);
  EXPECT_EQ(net.outgoing, std::string(1000, 'a') + "tail");
}

TEST_F(TcpRelayTest, ReadsNoFurtherWhileTheOtherSideIsBlocked) {
  net.allow(0);
  net.set_not_writable();
  app.feed("x");
  relay.pump(now);
  EXPECT_EQ(app.reads, 0);
}

TEST_F(TcpRelayTest, PassesAFinBehindTheLastByteAndKeepsTheOtherDirection) {
  app.feed("last words");
  app.feed_end();
  net.allow(4);
  relay.pump(now);
  EXPECT_FALSE(net.shut_down);
  net.allow(100);
  relay.pump(now);
  EXPECT_EQ(net.outgoing, "last words");
  EXPECT_TRUE(net.shut_down);
  net.feed("late reply");
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  EXPECT_EQ(app.outgoing, "late reply");
  net.feed_end();
  EXPECT_EQ(relay.pump(now), Step::kEnded);
  EXPECT_TRUE(app.shut_down);
}

TEST_F(TcpRelayTest, AnUrgentByteThatFindsNoRoomStaysUrgentAndInItsPlace) {
  net.allow(6);
  app.feed("before");
  app.feed_urgent('!');
  app.feed("behind");
  app.feed_end();
  relay.pump(now);
  EXPECT_EQ(net.outgoing, "before");
  net.allow(0);
  net.room = 0;
  relay.pump(now);  // the byte is read, and waits
  net.allow(100);
  relay.pump(now);
  EXPECT_EQ(net.outgoing, "before!behind");
  EXPECT_EQ(net.urgent_out, std::vector<std::size_t>{6});
  EXPECT_TRUE(net.shut_down);
}

TEST_F(TcpRelayTest, LastWordsAreReadAfterAWriteHasFailed) {
  net.feed("to nobody");
  app.feed(std::string(2 * kTurnBytesMax, 'x'));
  app.feed_reset();
  app.set_not_readable();  // the failed write is the first to tell
  EXPECT_EQ(pump_all(), Step::kReset);
  EXPECT_EQ(net.outgoing.size(), 2 * kTurnBytesMax);
}

TEST_F(TcpRelayTest, AFinBeforeTheResetArrivesToo) {
  app.feed("bye");
  app.feed_end();
  relay.pump(now);
  app.error = EPIPE;
  net.feed("too late");
  EXPECT_EQ(relay.pump(now), Step::kReset);
  EXPECT_EQ(net.outgoing, "bye");
  EXPECT_TRUE(net.shut_down);
}

TEST_F(TcpRelayTest, LastWordsWaitForAReaderThatGoesOn) {
  net.allow(10);
  app.feed(std::string(100, 'x'));
  app.feed_reset();
  for (std::size_t got = 10; got < 100; got += 10) {
    EXPECT_EQ(relay.pump(now), Step::kIdle);
    ASSERT_EQ(net.outgoing.size(), got);
    ASSERT_TRUE(relay.next_deadline());
    now = *relay.next_deadline() - Duration(1);
    net.allow(10);
  }
  net.allow(100);
  EXPECT_EQ(relay.pump(now), Step::kReset);
  EXPECT_EQ(net.outgoing.size(), 100U);
  EXPECT_FALSE(net.shut_down);
}

TEST_F(TcpRelayTest, AResetReachesAReaderThatHasStalled) {
  net.allow(10);
  app.feed(std::string(100, 'x'));
  app.feed_reset();
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  ASSERT_TRUE(relay.next_deadline());
  now = *relay.next_deadline();
  EXPECT_EQ(relay.pump(now), Step::kReset);
}

TEST_F(TcpRelayTest, AResetWaitsForWhatTheSocketHasNotSent) {
  app.feed_reset();
  net.unsent_bytes = 10;
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  EXPECT_EQ(relay.next_deadline(), now + kUnsentPoll);
  net.unsent_bytes = 0;
  EXPECT_EQ(relay.pump(now), Step::kReset);
}

class TcpRelayBehindAFin : public TcpRelayTest {
 protected:
  // The application has ended, and is gone.
  void speak_and_go(std::size_t bytes) {
    app.feed(std::string(bytes, 'x'));
    app.feed_end();
    app.error = EPIPE;
  }
};

TEST_F(TcpRelayBehindAFin, ItWaitsForAReaderThatStalls) {
  net.allow(10);
  speak_and_go(100);
  for (int hour = 0; hour < 3; ++hour) {
    EXPECT_EQ(relay.pump(now), Step::kIdle);
    EXPECT_FALSE(relay.next_deadline());  // an event tells of room
    now += std::chrono::hours(1);
  }
  net.allow(100);
  EXPECT_EQ(relay.pump(now), Step::kReset);
  EXPECT_EQ(net.outgoing.size(), 100U);
  EXPECT_TRUE(net.shut_down);
}

TEST_F(TcpRelayBehindAFin, AlsoWhenTheFinIsStillUnread) {
  net.allow(10);
  speak_and_go(3 * kCopyBytes);
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  ASSERT_FALSE(app.incoming.empty());
  now += std::chrono::hours(1);
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  net.allow(4 * kCopyBytes);
  EXPECT_EQ(relay.pump(now), Step::kReset);
  EXPECT_EQ(net.outgoing.size(), 3 * kCopyBytes);
  EXPECT_TRUE(net.shut_down);
}

TEST_F(TcpRelayBehindAFin, TheSocketIsAskedLessAndLessOftenWhetherTheReaderHasAll) {
  net.unsent_bytes = 10;
  speak_and_go(100);
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  EXPECT_EQ(relay.next_deadline(), now + kUnsentPoll);
  for (int look = 0; look < 20; ++look) {
    ASSERT_TRUE(relay.next_deadline());
    now = *relay.next_deadline();
    EXPECT_EQ(relay.pump(now), Step::kIdle);
  }
  EXPECT_EQ(relay.next_deadline(), now + kUnsentPollMax);
  net.unsent_bytes = 0;
  EXPECT_EQ(relay.pump(now), Step::kReset);
}

TEST_F(TcpRelayBehindAFin, AReaderThatIsGoneEndsTheWait) {
  net.allow(10);
  speak_and_go(100);
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  net.feed_reset();
  EXPECT_EQ(relay.pump(now), Step::kReset);
}

TEST_F(TcpRelayBehindAFin, WhatTheReaderSaysMeanwhileIsForNobody) {
  net.allow(10);
  speak_and_go(100);
  net.feed(std::string(3 * kUnheardTurnBytesMax, 'y'));
  EXPECT_EQ(pump_all(), Step::kIdle);
  EXPECT_TRUE(net.incoming.empty());
  net.feed_end();  // it still reads
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  net.allow(100);
  EXPECT_EQ(relay.pump(now), Step::kReset);
  EXPECT_EQ(net.outgoing.size(), 100U);
}

TEST_F(TcpRelayBehindAFin, AReaderThatOnlySpeaksIsReset) {
  net.allow(10);
  speak_and_go(100);
  constexpr std::size_t kPart = 1 << 20;
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  for (std::uint64_t said = kPart; said <= kUnheardBytesMax; said += kPart) {
    net.feed(std::string(kPart, 'y'));
    ASSERT_EQ(pump_all(), Step::kIdle) << said;
  }
  net.feed("y");
  EXPECT_EQ(relay.pump(now), Step::kReset);
}

TEST_F(TcpRelayBehindAFin, ThePeersBytesWaitForTheApplicationToo) {
  app.allow(10);
  net.feed(std::string(100, 'x'));
  net.feed_end();
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  net.note_error(ETIMEDOUT);
  relay.end_net();
  now += std::chrono::hours(1);
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  app.allow(100);
  EXPECT_EQ(relay.pump(now), Step::kReset);
  EXPECT_EQ(app.outgoing.size(), 100U);
  EXPECT_TRUE(app.shut_down);
}

TEST_F(TcpRelayTest, AResetThatAWriteMeetsIsNoEndForTheOtherDirection) {
  app.feed("request");
  net.write_error = ECONNRESET;
  net.feed_end();
  EXPECT_EQ(relay.pump(now), Step::kReset);
  EXPECT_FALSE(app.shut_down);
}

// splice(2) reports the end of the stream after a reset whose error another call has consumed.
TEST_F(TcpRelayTest, AResetIsNoEndWhereBytesAreSpliced) {
  Sockets sockets(app, net);
  app.feed(std::string(shared.buffer.size(), 'x'));  // enough that the rest is spliced
  EXPECT_EQ(relay.pump(now), Step::kIdle);
  sockets.app_peer.reset();
  app.feed_reset();
  EXPECT_EQ(relay.pump(now), Step::kReset);
  EXPECT_FALSE(net.shut_down);
}

TEST_F(TcpRelayTest, GivesOthersTheirTurn) {
  app.feed(std::string(4 * kTurnBytesMax, 'x'));
  EXPECT_EQ(relay.pump(now), Step::kMore);
  EXPECT_GE(net.outgoing.size(), kTurnBytesMax);
  EXPECT_LT(net.outgoing.size(), 2 * kTurnBytesMax);
}

// Parked and resumed by another process.

class ParkedRelayTest : public TcpRelayTest {
 protected:
  // What follows a park of both directions in another process, with the same sockets.
  void replace() {
    ParkedTcpHalf to_net = relay.towards_net().park(), to_app = relay.towards_app().park();
    successor.emplace(app, net, shared);
    successor->towards_net().resume(std::move(to_net));
    successor->towards_app().resume(std::move(to_app));
  }

  std::optional<TcpRelay> successor;
};

TEST_F(ParkedRelayTest, WhatHadNoRoomComesFirst) {
  net.allow(3);
  app.feed("request");
  relay.pump(now);
  replace();
  net.allow(100);
  app.feed(" and more");
  successor->pump(now);
  EXPECT_EQ(net.outgoing, "request and more");
  EXPECT_EQ(successor->towards_net().bytes(), 16U);
}

TEST_F(ParkedRelayTest, AnUrgentByteStaysUrgentAndInItsPlace) {
  net.allow(6);
  app.feed("before");
  app.feed_urgent('!');
  relay.pump(now);
  net.allow(0);
  net.room = 0;
  relay.pump(now);  // the byte is read, and waits
  replace();
  net.allow(100);
  app.feed("behind");
  successor->pump(now);
  EXPECT_EQ(net.outgoing, "before!behind");
  EXPECT_EQ(net.urgent_out, std::vector<std::size_t>{6});
}

TEST_F(ParkedRelayTest, AHalfClosedConnectionStaysSo) {
  app.feed("request");
  app.feed_end();
  relay.pump(now);
  ASSERT_TRUE(net.shut_down);
  net.shut_down = false;
  replace();
  net.feed("reply");
  net.feed_end();
  EXPECT_EQ(successor->pump(now), Step::kEnded);
  EXPECT_EQ(app.outgoing, "reply");
  EXPECT_TRUE(app.shut_down);
  EXPECT_FALSE(net.shut_down) << "it is told of the end once";
}

TEST_F(ParkedRelayTest, AnEndThatHadNoRoomBehindBytesIsStillTold) {
  net.allow(3);
  app.feed("request");
  app.feed_end();
  relay.pump(now);
  ASSERT_FALSE(net.shut_down);
  replace();
  net.allow(100);
  successor->pump(now);
  EXPECT_EQ(net.outgoing, "request");
  EXPECT_TRUE(net.shut_down);
}

TEST_F(ParkedRelayTest, ADeclineThatHasComeInPartIsDropped) {
  const std::string decline = encoded(wire::Decline{});
  relay.towards_app().skip_late_decline(false);
  net.feed(decline.substr(0, 5));
  relay.pump(now);
  replace();
  net.feed(decline.substr(5) + "data");
  successor->pump(now);
  EXPECT_EQ(app.outgoing, "data");
}

TEST_F(ParkedRelayTest, WhatWasSplicedIntoAPipeIsInHand) {
  const Sockets sockets(app, net);
  // The socket to the network is full.
  const std::string filler(4096, 'f');
  while (::write(net.fd, filler.data(), filler.size()) > 0) continue;
  const std::string piece = "spliced";
  ASSERT_EQ(::write(sockets.app_peer.get(), piece.data(), piece.size()),
            static_cast<ssize_t>(piece.size()));
  const std::string copied(shared.buffer.size(), 'x');  // enough that the rest is spliced
  app.feed(copied);
  relay.pump(now);
  const ParkedTcpHalf parked = relay.towards_net().park();
  const std::string waiting(reinterpret_cast<const char*>(parked.waiting.bytes.data()),
                            parked.waiting.bytes.size());
  EXPECT_EQ(net.outgoing + waiting, copied + piece);
  EXPECT_EQ(waiting, piece);
}

}  // namespace
}  // namespace fairlead::relay
