#include "smc/connection/connection.h"

#include <gtest/gtest.h>

#include <random>

#include "connection_pair.h"

namespace fairlead::smc {
namespace {

using ConnectionTest = ConnectionPairTest;

TEST_F(ConnectionTest, SaysNothingWhenEstablished) {
  EXPECT_FALSE(pair.a.connection.transmit_due());
  EXPECT_FALSE(pair.a.connection.poll_transmit());
}

TEST_F(ConnectionTest, FirstMessageHasSequenceOneAndThePeersToken) {
  pair.write(pair.a, "hello");
  const Transmit transmit = pair.next_transmit(pair.a);
  EXPECT_EQ(transmit.cdc.sequence, 1);
  EXPECT_EQ(transmit.cdc.token, AlertToken{0x202});
  EXPECT_EQ(transmit.cdc.producer, (wire::CdcCursor{0, 5}));
  EXPECT_EQ(transmit.write_count, 0U);  // direct: the bytes are there already
}

TEST_F(ConnectionTest, UsesTheWholeElementAndThenIsBlocked) {
  EXPECT_EQ(pair.write(pair.a, std::string(20000, 'x')), 16384U);
  EXPECT_EQ(pair.a.connection.tx_blocked(), Side::kPeer);
  const Transmit transmit = pair.next_transmit(pair.a);
  EXPECT_EQ(transmit.cdc.producer, (wire::CdcCursor{1, 0}));
  EXPECT_TRUE(transmit.cdc.producer_flags.write_blocked);
}

TEST_F(ConnectionTest, AFullSendRingIsNotAFullPeer) {
  pair = ConnectionPair(16384, 32768, 16384);
  EXPECT_EQ(pair.write(pair.a, std::string(20000, 'x')), 16384U);
  EXPECT_EQ(pair.a.connection.tx_blocked(), Side::kLocal);
  pair.settle();
  EXPECT_EQ(pair.a.connection.tx_blocked(), std::nullopt);
  pair.write_and_settle(pair.a, std::string(20000, 'y'));
  pair.write_and_settle(pair.a, std::string(16384, 'z'));
  EXPECT_EQ(pair.a.connection.tx_blocked(), Side::kPeer);
}

TEST_F(ConnectionTest, AnnouncesRoomWhenThePeerIsBlocked) {
  pair.write_and_settle(pair.a, std::string(16384, 'x'));
  EXPECT_EQ(pair.read(pair.b).size(), 16384U);
  EXPECT_TRUE(pair.b.connection.transmit_due());
  pair.settle();
  EXPECT_EQ(pair.a.connection.tx_window().bytes(), 16384U);
}

TEST_F(ConnectionTest, AnnouncesEveryReadBeforeAPause) {
  pair = ConnectionPair(65536, 65536);
  pair.b.connection.consumed(0, pair.now, Connection::Announce::kAll);
  EXPECT_FALSE(pair.b.connection.transmit_due());  // nothing was read
  pair.write_and_settle(pair.a, std::string(1000, 'x'));
  EXPECT_EQ(pair.read(pair.b).size(), 1000U);
  pair.b.connection.consumed(0, pair.now, Connection::Announce::kAll);
  EXPECT_TRUE(pair.b.connection.transmit_due());
  pair.settle();
  EXPECT_EQ(pair.a.connection.tx_window().bytes(), 65536U);
}

TEST_F(ConnectionTest, AnnouncesAtOnceWhenAskedTo) {
  pair.write_and_transmit(pair.a, "x");
  pair.a.on_the_way.front().producer_flags.consumer_update_requested = true;
  ASSERT_TRUE(pair.deliver(pair.a));
  pair.read(pair.b);
  EXPECT_TRUE(pair.b.connection.transmit_due());
}

TEST_F(ConnectionTest, StagedBytesAreWrittenAndFreedByTheirCompletion) {
  pair = ConnectionPair(16384, 32768, 16384);
  EXPECT_EQ(pair.write(pair.a, std::string(16384, 'y')), 16384U);
  EXPECT_EQ(pair.a.connection.tx_window().bytes(), 0U);
  pair.transmit(pair.a);
  EXPECT_EQ(pair.a.connection.tx_window().bytes(), 0U);
  ASSERT_TRUE(pair.deliver(pair.a));
  EXPECT_EQ(pair.a.connection.tx_window().bytes(), 16384U);
  EXPECT_EQ(pair.read(pair.b), std::string(16384, 'y'));
}

// Sizes of all rings differ, so that every combination of wraps occurs.
void stream_random_bytes(ConnectionPair& pair, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string sent, received;
  const std::size_t total = 1 << 20;
  while (received.size() < total) {
    if (sent.size() < total) {
      std::string chunk(1 + random() % 9000, ' ');
      for (char& c : chunk) c = static_cast<char>(random());
      sent += chunk.substr(0, pair.write(pair.a, chunk));
    }
    pair.settle();
    if (random() % 3 != 0) received += pair.read(pair.b);
    ASSERT_EQ(received, sent.substr(0, received.size()));
  }
}

TEST_F(ConnectionTest, DirectAndStagedStreamsArriveInOrder) {
  ConnectionPair direct(16384, 32768), staged(65536, 32768, 16384);
  stream_random_bytes(direct, 1);
  stream_random_bytes(staged, 2);
}

TEST_F(ConnectionTest, HalfCloseLetsTheOtherDirectionLive) {
  pair.write(pair.a, "request");
  pair.a.connection.shutdown_write();
  pair.settle();
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kNone);  // not before the bytes are read
  EXPECT_EQ(pair.read(pair.b), "request");
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kFin);
  EXPECT_EQ(pair.b.connection.closing().state(), CloseState::kAppCloseWait1);
  pair.write_and_settle(pair.b, "reply");
  EXPECT_EQ(pair.read(pair.a), "reply");
  EXPECT_EQ(pair.a.connection.rx_end(), StreamEnd::kNone);
}

TEST_F(ConnectionTest, DoneWritingFollowsThePendingBytes) {
  pair = ConnectionPair(16384, 16384, 32768);
  pair.write(pair.a, std::string(20000, 'z'));
  pair.a.connection.shutdown_write();
  const Transmit first = pair.next_transmit(pair.a);
  EXPECT_FALSE(first.cdc.state.done_writing);
  EXPECT_TRUE(first.cdc.producer_flags.write_blocked);
  EXPECT_FALSE(pair.a.connection.transmit_due());
}

// As a kernel closes with data left: "closed" arrives with "write blocked", and counts as the end
// only after the grace.
TEST_F(ConnectionTest, AClosedPeerWithAFullWindowGetsTimeToSendTheRest) {
  pair.write_and_transmit(pair.a, std::string(16384, 'x'));
  pair.a.on_the_way.back().state.closed = true;
  ASSERT_TRUE(pair.deliver(pair.a));
  pair.read(pair.b);
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kNone);
  EXPECT_TRUE(pair.b.connection.transmit_due());  // the update that the kernel waits for
  ASSERT_TRUE(pair.b.connection.next_deadline());
  wire::CdcMessage rest = next_message(pair.b, 2);
  rest.producer = {1, 10};
  rest.state.closed = true;
  (void)pair.b.connection.poll_transmit();
  ASSERT_TRUE(pair.b.connection.handle_cdc(rest, pair.now));
  EXPECT_EQ(pair.read(pair.b).size(), 10U);
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kFin);
}

TEST_F(ConnectionTest, DropsMessagesThatWereOvertaken) {
  pair.write_and_transmit(pair.a, "one");
  const wire::CdcMessage first = pair.a.on_the_way.front();
  pair.write_and_transmit(pair.a, "two");
  ASSERT_TRUE(pair.deliver(pair.a));
  ASSERT_TRUE(pair.deliver(pair.a));
  ASSERT_TRUE(pair.b.connection.handle_cdc(first, pair.now));
  EXPECT_EQ(pair.read(pair.b), "onetwo");
}

TEST_F(ConnectionTest, SequenceNumbersWrapAround) {
  for (int i = 0; i < 70000; ++i) {
    pair.write_and_settle(pair.a, "x");
    ASSERT_EQ(pair.read(pair.b), "x");
  }
}

TEST_F(ConnectionTest, BytesMayOvertakeTheConfirm) {
  Connection server(AlertToken{7}, 16384);
  ASSERT_TRUE(server.handle_cdc(wire::CdcMessage{.sequence = 1, .producer = {0, 5}}, TimePoint{}));
  EXPECT_EQ(server.rx().window().bytes(), 5U);
  EXPECT_FALSE(server.transmit_due());
}

// A kernel sends its last message again, with what has changed since.
TEST_F(ConnectionTest, AMessageWithTheNumberOfTheLastOneCounts) {
  wire::CdcMessage message = next_message(pair.b, 7);
  message.producer = {0, 5};
  ASSERT_TRUE(pair.b.connection.handle_cdc(message, pair.now));
  message.producer = {0, 8};
  ASSERT_TRUE(pair.b.connection.handle_cdc(message, pair.now));
  EXPECT_EQ(pair.b.connection.rx().window().bytes(), 8U);
}

TEST_F(ConnectionTest, AnOvertakenMessageSaysNothingAboutItsSender) {
  ASSERT_TRUE(pair.b.connection.handle_cdc(next_message(pair.b, 2), pair.now));
  wire::CdcMessage older = next_message(pair.b, 1);
  older.producer_flags.write_blocked = true;
  older.state.done_writing = true;
  ASSERT_TRUE(pair.b.connection.handle_cdc(older, pair.now));
  EXPECT_FALSE(pair.b.connection.rx().write_blocked());
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kNone);
}

TEST_F(ConnectionTest, NothingCanBeWrittenOnceAnEndIsKnown) {
  void (*const ends[])(ConnectionPair&) = {
      [](ConnectionPair& one) { one.a.connection.shutdown_write(); },
      [](ConnectionPair& one) { one.a.connection.close(); },
      [](ConnectionPair& one) { one.a.connection.abort(); },
      [](ConnectionPair& one) { one.a.connection.handle_link_lost(); },
      [](ConnectionPair& one) {
        one.b.connection.close();
        one.settle();
      }};
  for (const auto end : ends) {
    pair = ConnectionPair();
    EXPECT_EQ(pair.a.connection.tx_window().bytes(), 16384U);
    end(pair);
    EXPECT_EQ(pair.a.connection.tx_window().bytes(), 0U);
  }
}

TEST_F(ConnectionTest, OneThatHasEndedIsNotBlocked) {
  pair.a.connection.shutdown_write();
  EXPECT_EQ(pair.a.connection.tx_blocked(), std::nullopt);
}

TEST_F(ConnectionTest, EachStepOfAnOrderlyCloseHasItsState) {
  const Closing& a = pair.a.connection.closing();
  const Closing& b = pair.b.connection.closing();
  EXPECT_EQ(a.state(), CloseState::kActive);
  pair.a.connection.shutdown_write();
  pair.settle();
  EXPECT_EQ(a.state(), CloseState::kPeerCloseWait1);
  EXPECT_EQ(b.state(), CloseState::kAppCloseWait1);
  pair.b.connection.shutdown_write();
  pair.settle();
  EXPECT_EQ(a.state(), CloseState::kPeerCloseWait2);
  EXPECT_EQ(b.state(), CloseState::kAppCloseWait2);
  EXPECT_TRUE(a.peer_ended());
  EXPECT_FALSE(a.peer_closed());
  pair.a.connection.close();
  pair.settle();
  EXPECT_TRUE(a.said_closed());
  EXPECT_TRUE(b.peer_closed());
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kFin);
  EXPECT_FALSE(ended_in_order(pair.b.connection));
  EXPECT_FALSE(pair.b.connection.finished());
  pair.b.connection.close();
  pair.settle();
  EXPECT_TRUE(pair.both_finished());
  EXPECT_TRUE(ended_in_order(pair.a.connection));
  EXPECT_TRUE(ended_in_order(pair.b.connection));
}

TEST_F(ConnectionTest, NoMessageChangesAConnectionThatIsOver) {
  for (const bool lost : {false, true}) {
    pair = ConnectionPair();
    if (lost) {
      pair.b.connection.handle_link_lost();
    } else {
      pair.a.connection.close();
      pair.b.connection.close();
      pair.settle();
    }
    ASSERT_TRUE(pair.b.connection.finished());
    wire::CdcMessage late = next_message(pair.b, 9);
    late.producer = {500, 0};  // which would be a violation
    EXPECT_TRUE(pair.b.connection.handle_cdc(late, pair.now)) << lost;
    EXPECT_EQ(pair.b.connection.closing().reset(), lost);
    EXPECT_EQ(pair.b.connection.rx().window().bytes(), 0U);
  }
}

TEST_F(ConnectionTest, BeforeTheConfirmNothingIsSentThoughSomethingIsDue) {
  Connection server(AlertToken{7}, 16384);
  EXPECT_EQ(server.tx_window().bytes(), 0U);
  EXPECT_EQ(server.tx_blocked(), std::nullopt);
  wire::CdcMessage message{.sequence = 1, .producer = {0, 16000}};
  ASSERT_TRUE(server.handle_cdc(message, TimePoint{}));
  server.consumed(16000, TimePoint{});
  EXPECT_FALSE(server.transmit_due());
  server.handle_link_switched({RemoteKey{1}, RemoteAddress{0}, 32768});
  EXPECT_FALSE(server.transmit_due());
  server.set_peer(AlertToken{9}, {RemoteKey{1}, RemoteAddress{0}, 32768}, 0);
  const auto update = server.poll_transmit();
  ASSERT_TRUE(update);
  EXPECT_EQ(update->cdc.token, AlertToken{9});
  EXPECT_EQ(update->cdc.consumer, (wire::CdcCursor{0, 16000}));
}

TEST_F(ConnectionTest, AResetBeforeTheConfirmNeedsNoMessage) {
  Connection server(AlertToken{7}, 16384);
  server.abort();
  EXPECT_FALSE(server.transmit_due());
  EXPECT_TRUE(server.reset_said());
}

TEST_F(ConnectionTest, AHostileCursorAbortsTheConnectionAndNothingElse) {
  const struct {
    const char* name;
    wire::CdcCursor producer, consumer;
  } kTable[] = {{"producer outside the element", {0, 16384}, {0, 0}},
                {"producer far outside", {0, 0xffffffff}, {0, 0}},
                {"producer beyond free space", {1, 1}, {0, 0}},
                {"producer wraps ahead", {77, 0}, {0, 0}},
                {"consumer before anything was sent", {0, 0}, {0, 1}},
                {"consumer outside the element", {0, 0}, {0, 16384}},
                {"consumer wraps ahead", {0, 0}, {9, 9}}};
  for (const auto& row : kTable) {
    SCOPED_TRACE(row.name);
    pair = ConnectionPair();
    wire::CdcMessage message = next_message(pair.b, 1);
    message.producer = row.producer;
    message.consumer = row.consumer;
    const Result<void> taken = pair.b.connection.handle_cdc(message, pair.now);
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().code, Errc::kMalformed);
    EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kReset);
    EXPECT_EQ(pair.b.connection.rx().window().bytes(), 0U);
    EXPECT_TRUE(pair.next_transmit(pair.b).cdc.state.aborted);
  }
}

TEST_F(ConnectionTest, APeerMayNotUseRoomThatWasNotAnnounced) {
  pair.write_and_settle(pair.a, std::string(1000, 'x'));
  pair.read(pair.b);  // free again, but not announced
  wire::CdcMessage message = next_message(pair.b, 2);
  message.producer = {1, 1};
  EXPECT_FALSE(pair.b.connection.handle_cdc(message, pair.now));
}

}  // namespace
}  // namespace fairlead::smc
