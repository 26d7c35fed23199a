// Two SmcRelays over plain memory: interaction of socket and protocol.

#include "relay/pipes/smc_relay.h"

#include <gtest/gtest.h>

#include <vector>

#include "fake_stream.h"

namespace fairlead::relay {
namespace {

using Step = SmcRelay::Step;
constexpr std::uint32_t kRing = 16384;
constexpr smc::RmbElement kElement{RemoteKey{1}, RemoteAddress{0}, kRing};

class SmcRelayTest : public testing::Test {
 protected:
  SmcRelayTest() {
    a.connection().set_peer(AlertToken{2}, kElement, 0);
    b.connection().set_peer(AlertToken{1}, kElement, 0);
    a.buffers().reach_peer(kElement, 0, b_memory);
    b.buffers().reach_peer(kElement, 0, a_memory);
  }
  // Runs until neither side has work.
  void settle() {
    for (bool any = true; any;) {
      any = false;
      a_step = a.pump(a_app, 131072, now);
      b_step = b.pump(b_app, 131072, now);
      while (const auto transmit = a.connection().poll_transmit()) {
        EXPECT_TRUE(b.connection().handle_cdc(transmit->cdc, now));
        any = true;
      }
      while (const auto transmit = b.connection().poll_transmit()) {
        EXPECT_TRUE(a.connection().handle_cdc(transmit->cdc, now));
        any = true;
      }
      any = any || a_step == Step::kMore || b_step == Step::kMore;
    }
  }

  // One step of a, and its message to b.
  void pump_and_tell() {
    a.pump(a_app, 131072, now);
    ASSERT_TRUE(b.connection().handle_cdc(a.connection().poll_transmit()->cdc, now));
  }

  TimePoint now{std::chrono::hours(1)};
  std::vector<std::byte> a_memory{kRing}, b_memory{kRing};
  FakeStream a_app, b_app;
  SmcRelay a{AlertToken{1}, smc::ElementId{}, a_memory, {}};
  SmcRelay b{AlertToken{2}, smc::ElementId{}, b_memory, {}};
  Step a_step = Step::kIdle, b_step = Step::kIdle;
};

TEST_F(SmcRelayTest, CarriesMoreThanARingInOrder) {
  std::string bytes;
  for (int i = 0; i < 20000; ++i) bytes += std::to_string(i) + ",";
  a_app.feed(bytes);
  settle();
  EXPECT_EQ(b_app.outgoing, bytes);
}

TEST_F(SmcRelayTest, ASlowReaderHoldsTheWriterBack) {
  b_app.allow(100);
  a_app.feed(std::string(3 * kRing, 'x'));
  settle();
  EXPECT_EQ(b_app.outgoing.size(), 100U);
  EXPECT_GE(a_app.incoming.size(), kRing);  // not taken from the application
  b_app.allow(1 << 20);
  settle();
  EXPECT_EQ(b_app.outgoing.size(), 3U * kRing);
}

TEST_F(SmcRelayTest, FinsOfBothSidesEndTheConnection) {
  a_app.feed("request");
  a_app.feed_end();
  settle();
  EXPECT_EQ(b_app.outgoing, "request");
  EXPECT_TRUE(b_app.shut_down);
  EXPECT_EQ(a_step, Step::kIdle);
  b_app.feed("reply");
  b_app.feed_end();
  settle();
  EXPECT_EQ(a_app.outgoing, "reply");
  EXPECT_TRUE(a_app.shut_down);
  EXPECT_EQ(a_step, Step::kFinished);
  EXPECT_EQ(b_step, Step::kFinished);
  EXPECT_FALSE(a_app.reset);
  EXPECT_FALSE(b_app.reset);
}

TEST_F(SmcRelayTest, AResetOfOneApplicationResetsTheOther) {
  a_app.feed("heard");
  settle();
  a_app.feed_reset();
  settle();
  EXPECT_EQ(a_step, Step::kReset);
  EXPECT_EQ(b_step, Step::kReset);
  EXPECT_TRUE(b_app.reset);
}

// A FIN would tell the application that it has all bytes.
TEST_F(SmcRelayTest, AFailedWriteAfterBothEndsIsAReset) {
  a_app.allow(0);
  a_app.set_not_writable();
  b_app.feed("not all of it");
  b_app.feed_end();
  a_app.feed_end();
  settle();
  a_app.error = ENOBUFS;
  a_app.allow(100);
  settle();
  EXPECT_TRUE(a_app.reset);
  EXPECT_FALSE(a_app.shut_down);
}

TEST_F(SmcRelayTest, LastWordsAreReadAfterAWriteHasFailed) {
  b_app.feed("refused");
  b_app.feed_reset();
  a_app.feed("request");
  pump_and_tell();
  settle();
  EXPECT_EQ(a_app.outgoing, "refused");
  EXPECT_EQ(a_step, Step::kReset);
  EXPECT_TRUE(a_app.reset);
}

TEST_F(SmcRelayTest, AFinBeforeTheResetArrivesToo) {
  b_app.feed("bye");
  b_app.feed_end();
  settle();
  b_app.error = EPIPE;
  a_app.feed("too late");
  settle();
  EXPECT_EQ(a_app.outgoing, "bye");
  EXPECT_TRUE(a_app.shut_down);
  EXPECT_TRUE(a_app.reset);
  EXPECT_EQ(b_step, Step::kReset);
}

// As Linux says a FIN when nobody has made room for a while.
TEST_F(SmcRelayTest, AFinAheadOfBytesIsNoneOnceTheConnectionIsReset) {
  b_app.feed("half of it");
  b.pump(b_app, 131072, now);
  wire::CdcMessage message = b.connection().poll_transmit()->cdc;
  message.producer_flags.write_blocked = true;
  message.state.done_writing = message.state.closed = true;
  ASSERT_TRUE(a.connection().handle_cdc(message, now));
  EXPECT_EQ(a.pump(a_app, 131072, now), Step::kIdle);
  EXPECT_EQ(a_app.outgoing, "half of it");
  message.sequence++;
  message.state.aborted = true;
  ASSERT_TRUE(a.connection().handle_cdc(message, now));
  while (a.connection().poll_transmit()) continue;
  EXPECT_EQ(a.pump(a_app, 131072, now), Step::kReset);
  EXPECT_TRUE(a_app.reset);
  EXPECT_FALSE(a_app.shut_down);
}

// A client that half-closes and is then killed, or closes before the answer comes.
TEST_F(SmcRelayTest, AResetBehindAFinIsPassedOn) {
  a_app.feed("request");
  a_app.feed_end();
  a.app_changed();
  settle();
  EXPECT_TRUE(b_app.shut_down);
  EXPECT_FALSE(b_app.reset);
  a_app.error = EPIPE;  // the kernel's error for it
  a.app_changed();
  settle();
  EXPECT_EQ(b_app.outgoing, "request");
  EXPECT_TRUE(b_app.reset);
  EXPECT_EQ(a_step, Step::kReset);
  EXPECT_EQ(b_step, Step::kReset);
}

TEST_F(SmcRelayTest, AResetThatCameWithTheFinIsPassedOn) {
  a_app.feed_end();
  a_app.error = EPIPE;
  a.app_changed();
  a.pump(a_app, 131072, now);
  EXPECT_TRUE(a.connection().closing().reset());  // no event follows
  settle();
  EXPECT_TRUE(b_app.shut_down);
  EXPECT_TRUE(b_app.reset);
}

// In TCP, a connection with both FINs acknowledged cannot be reset.
TEST_F(SmcRelayTest, AResetBehindBothFinsIsNotPassedOn) {
  b_app.feed_end();
  settle();
  a_app.feed("unread");
  b_app.allow(0);
  a_app.feed_end();
  settle();
  ASSERT_TRUE(a_app.shut_down);
  a_app.error = EPIPE;
  a.app_changed();
  settle();
  b_app.allow(100);
  settle();
  EXPECT_EQ(b_app.outgoing, "unread");
  EXPECT_TRUE(b_app.shut_down);
  EXPECT_FALSE(b_app.reset);
  EXPECT_EQ(b_step, Step::kFinished);
}

TEST_F(SmcRelayTest, WithoutAnEventAFinishedStreamIsNotAskedForAReset) {
  a_app.feed_end();
  settle();
  const int asked = a_app.asked_for_error;
  b_app.feed(std::string(3 * kRing, 'x'));
  settle();
  EXPECT_EQ(a_app.outgoing.size(), 3U * kRing);
  EXPECT_EQ(a_app.asked_for_error, asked);
}

TEST_F(SmcRelayTest, OnlyTheAnswerIsAwaitedWhenThePeerHasReadAll) {
  b_app.feed_end();
  settle();
  b_app.allow(0);
  b_app.set_not_writable();
  a_app.feed("unread");
  a_app.feed_end();
  settle();
  EXPECT_TRUE(a_app.shut_down);
  EXPECT_FALSE(a.awaits_answer());
  b_app.allow(100);
  b.pump(b_app, 131072, now);
  ASSERT_TRUE(a.connection().handle_cdc(b.connection().poll_transmit()->cdc, now));
  EXPECT_TRUE(a.awaits_answer());
}

TEST_F(SmcRelayTest, LastWordsWaitForAReaderThatGoesOn) {
  constexpr std::size_t kPart = kRing / 4;
  b_app.allow(kPart);
  a_app.feed(std::string(3 * kRing, 'x'));
  a_app.feed_reset();
  for (std::size_t got = kPart; got < 3 * kRing; got += kPart) {
    settle();
    ASSERT_EQ(b_app.outgoing.size(), got);
    EXPECT_NE(b_step, Step::kReset);
    now += kResetDelay - Duration(1);
    b_app.allow(kPart);
  }
  settle();
  EXPECT_EQ(b_app.outgoing.size(), 3U * kRing);
  EXPECT_EQ(b_step, Step::kReset);
  EXPECT_TRUE(b_app.reset);
  EXPECT_FALSE(b_app.shut_down);
}

TEST_F(SmcRelayTest, AResetReachesAReaderThatHasStalled) {
  b_app.allow(0);
  b_app.set_not_writable();
  a_app.feed(std::string(2 * kRing, 'x'));
  settle();
  a_app.feed_reset();
  settle();
  EXPECT_NE(b_step, Step::kReset);
  ASSERT_TRUE(a.next_deadline());
  now = *a.next_deadline();
  settle();
  EXPECT_EQ(a_step, Step::kReset);
  ASSERT_TRUE(b.next_deadline());
  now = *b.next_deadline();
  settle();
  EXPECT_EQ(b_step, Step::kReset);
  EXPECT_TRUE(b_app.reset);
}

class SmcRelayBehindAFin : public SmcRelayTest {
 protected:
  // Application a has ended, and is gone.
  void speak_and_go(std::size_t bytes) {
    a_app.feed(std::string(bytes, 'x'));
    a_app.feed_end();
    settle();
    a_app.error = EPIPE;
    a.app_changed();
    settle();
  }
  void stall() {
    b_app.allow(0);
    b_app.set_not_writable();
  }
};

TEST_F(SmcRelayBehindAFin, TheRingWaitsForAReaderThatStalls) {
  stall();
  speak_and_go(kRing / 2);
  EXPECT_EQ(a_step, Step::kReset);  // the peer has all
  now += std::chrono::hours(1);
  settle();
  EXPECT_EQ(b_step, Step::kIdle);
  EXPECT_FALSE(b.next_deadline());
  EXPECT_FALSE(b.awaits_answer());
  b_app.allow(1 << 20);
  settle();
  EXPECT_EQ(b_app.outgoing.size(), kRing / 2);
  EXPECT_TRUE(b_app.shut_down);
  EXPECT_EQ(b_step, Step::kReset);
  EXPECT_TRUE(b_app.reset);
}

TEST_F(SmcRelayBehindAFin, WhatThePeerHasNoRoomForWaitsToo) {
  stall();
  speak_and_go(2 * kRing);
  ASSERT_FALSE(a_app.incoming.empty());
  now += std::chrono::hours(1);
  settle();
  EXPECT_EQ(a_step, Step::kIdle);
  EXPECT_FALSE(a.awaits_answer());
  b_app.allow(1 << 20);
  settle();
  EXPECT_EQ(b_app.outgoing.size(), 2 * kRing);
  EXPECT_TRUE(b_app.shut_down);
  EXPECT_EQ(a_step, Step::kReset);
  EXPECT_EQ(b_step, Step::kReset);
}

TEST_F(SmcRelayBehindAFin, ItWaitsUntilTheReaderHasAcknowledgedIt) {
  b_app.unsent_bytes = 10;
  speak_and_go(100);
  now += 2 * kResetDelay;
  settle();
  EXPECT_EQ(b_step, Step::kIdle);
  EXPECT_TRUE(b.next_deadline());
  b_app.unsent_bytes = 0;
  settle();
  EXPECT_EQ(b_step, Step::kReset);
}

TEST_F(SmcRelayBehindAFin, ALostPeerIsNoReasonToDropIt) {
  stall();
  a_app.feed("last words");
  a_app.feed_end();
  settle();
  b.connection().handle_link_lost();
  now += std::chrono::hours(1);
  EXPECT_EQ(b.pump(b_app, 131072, now), Step::kIdle);
  b_app.allow(100);
  EXPECT_EQ(b.pump(b_app, 131072, now), Step::kReset);
  EXPECT_EQ(b_app.outgoing, "last words");
  EXPECT_TRUE(b_app.shut_down);
}

TEST_F(SmcRelayBehindAFin, AReaderThatIsGoneEndsTheWait) {
  stall();
  speak_and_go(2 * kRing);
  b_app.feed_reset();
  settle();
  EXPECT_EQ(a_step, Step::kReset);
  EXPECT_EQ(b_step, Step::kReset);
}

// In the peer's ring, or for a part in the application's socket.
class SmcRelayUnheard : public SmcRelayBehindAFin,
                        public testing::WithParamInterface<std::size_t> {};

TEST_P(SmcRelayUnheard, WhatTheReaderSaysMeanwhileIsForNobody) {
  stall();
  speak_and_go(GetParam());
  b_app.feed(std::string(3 * kRing, 'y'));
  settle();
  EXPECT_TRUE(b_app.incoming.empty());
  b_app.allow(1 << 20);
  settle();
  EXPECT_EQ(b_app.outgoing.size(), GetParam());
  EXPECT_TRUE(b_app.shut_down);
  EXPECT_EQ(a_app.outgoing, "");
}

TEST_P(SmcRelayUnheard, AReaderThatOnlySpeaksIsReset) {
  stall();
  speak_and_go(GetParam());
  constexpr std::size_t kPart = 1 << 20;
  for (std::uint64_t said = 0; said <= kUnheardBytesMax; said += kPart) {
    EXPECT_EQ(b_step, Step::kIdle) << said;
    b_app.feed(std::string(kPart, 'y'));
    settle();
  }
  now += kResetDelay;  // where the writer's side gives up, the end is not said any more
  settle();
  EXPECT_EQ(b_step, Step::kReset);
}

INSTANTIATE_TEST_SUITE_P(Each, SmcRelayUnheard, testing::Values(kRing / 2, 2 * kRing));

TEST_F(SmcRelayTest, AResetWaitsForWhatTheSocketHasNotSent) {
  b_app.unsent_bytes = 10;
  a_app.feed_reset();
  settle();
  EXPECT_NE(b_step, Step::kReset);
  ASSERT_TRUE(b.next_deadline());
  EXPECT_LE(*b.next_deadline(), now + kUnsentPoll);
  b_app.unsent_bytes = 0;
  settle();
  EXPECT_EQ(b_step, Step::kReset);
}

TEST_F(SmcRelayTest, WhatALostPeerAnnouncedIsDelivered) {
  a_app.feed("last words");
  pump_and_tell();
  b.connection().handle_link_lost();
  EXPECT_EQ(b.pump(b_app, 131072, now), Step::kReset);
  EXPECT_EQ(b_app.outgoing, "last words");
  EXPECT_TRUE(b_app.reset);
}

TEST_F(SmcRelayTest, AnUrgentByteStaysUrgentAndInItsPlace) {
  b_app.allow(3);
  a_app.feed("before");
  a_app.feed_urgent('!');
  a_app.feed("behind");
  a_app.feed_end();
  settle();
  EXPECT_EQ(b_app.outgoing, "bef");
  b_app.allow(3);
  settle();
  EXPECT_EQ(b_app.outgoing, "before");
  b_app.allow(100);
  settle();
  EXPECT_EQ(b_app.outgoing, "before!behind");
  EXPECT_EQ(b_app.urgent_out, std::vector<std::size_t>{6});
  EXPECT_TRUE(b_app.shut_down);
}

TEST_F(SmcRelayTest, UrgentBytesWithoutEndAllArrive) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < 1000; ++i) {
    a_app.feed_urgent(static_cast<char>('0' + i % 10));
    places.push_back(i);
    settle();
  }
  EXPECT_EQ(b_app.outgoing.size(), 1000U);
  EXPECT_EQ(b_app.urgent_out, places);
}

TEST_F(SmcRelayTest, ALookFindsWhatNoEventHasToldOf) {
  settle();
  ASSERT_FALSE(a_app.readable());
  EXPECT_FALSE(a.try_read(a_app, 131072));
  EXPECT_FALSE(a_app.readable());
  EXPECT_FALSE(a.connection().transmit_due()) << "it looked in vain";
  a_app.incoming = "unannounced";
  EXPECT_TRUE(a.try_read(a_app, 131072));
  settle();
  EXPECT_EQ(b_app.outgoing, "unannounced");
  a_app.set_not_readable();
  a_app.ended = true;
  EXPECT_TRUE(a.try_read(a_app, 131072));
  settle();
  EXPECT_TRUE(b_app.shut_down);
}

// No event reports bytes that were already read from the socket: the result of try_read() makes the
// session send them.
TEST_F(SmcRelayTest, ALookTellsOfBytesInTheSendRing) {
  SmcRelay staged{AlertToken{3}, smc::ElementId{}, b_memory, {}};
  staged.connection().set_peer(AlertToken{4}, kElement, kRing);
  staged.buffers().take_send_ring({}, a_memory);
  a_app.set_not_readable();
  a_app.incoming = "unannounced";
  EXPECT_TRUE(staged.try_read(a_app, 131072));
  EXPECT_FALSE(a_app.readable());
  EXPECT_TRUE(staged.connection().transmit_due());
  EXPECT_FALSE(staged.try_read(a_app, 131072));
}

TEST_F(SmcRelayTest, ALookDoesNotReadWithoutRoom) {
  b_app.allow(0);
  b_app.set_not_writable();
  a_app.feed(std::string(2 * kRing, 'x'));
  settle();
  a_app.set_not_readable();
  const int reads = a_app.reads;
  EXPECT_FALSE(a.try_read(a_app, 131072));
  EXPECT_EQ(a_app.reads, reads);
  EXPECT_FALSE(a_app.readable());  // so that the event of what comes next is not a reset's
}

TEST_F(SmcRelayTest, ALookMeetsAReset) {
  settle();
  a_app.error = ECONNRESET;
  EXPECT_TRUE(a.try_read(a_app, 131072));
  settle();
  EXPECT_TRUE(b_app.reset);
}

}  // namespace
}  // namespace fairlead::relay
