// Delivery of bytes that were sent before a reset.

#include <gtest/gtest.h>

#include "connection_pair.h"
#include "smc/connection/connection.h"

namespace fairlead::smc {
namespace {

using ConnectionAbort = ConnectionPairTest;

TEST_F(ConnectionAbort, AbortReachesThePeerAndIsAnswered) {
  pair.a.connection.abort();
  pair.settle();
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kReset);
  EXPECT_TRUE(pair.b.connection.reset_said());
  EXPECT_TRUE(pair.both_finished());
}

TEST_F(ConnectionAbort, WhatWasAnnouncedBeforeAnAbortCanStillBeRead) {
  pair.write_and_transmit(pair.a, "last words");
  pair.a.connection.abort();
  pair.settle();
  EXPECT_TRUE(pair.b.connection.closing().reset());
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kNone);
  EXPECT_EQ(pair.read(pair.b), "last words");
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kReset);
  EXPECT_FALSE(pair.b.connection.closing().peer_ended());
  EXPECT_FALSE(pair.b.connection.closing().peer_writes_on(true));
}

TEST_F(ConnectionAbort, AnAbortBehindDataWaitsUntilAllIsInThePeersElement) {
  pair = ConnectionPair(16384, 16384, 32768);  // the send ring holds more than the peer
  const std::string bytes(20000, 'z');
  pair.write(pair.a, bytes);
  pair.a.connection.abort(Connection::Abort::kBehindData);
  pair.settle();
  EXPECT_TRUE(pair.a.connection.closing().reset());
  EXPECT_FALSE(pair.a.connection.reset_said());
  EXPECT_FALSE(pair.b.connection.closing().reset());
  std::string got = pair.read(pair.b);
  pair.settle();
  EXPECT_TRUE(pair.a.connection.reset_said());
  EXPECT_TRUE(pair.b.connection.closing().reset());
  got += pair.read(pair.b);
  EXPECT_EQ(got, bytes);
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kReset);
  EXPECT_TRUE(pair.a.connection.finished());
}

TEST_F(ConnectionAbort, AnAbortEndsTheWaitForRoom) {
  pair = ConnectionPair(16384, 16384, 32768);
  pair.write(pair.a, std::string(20000, 'z'));
  pair.a.connection.abort(Connection::Abort::kBehindData);
  pair.settle();
  pair.a.connection.abort();
  pair.settle();
  EXPECT_TRUE(pair.a.connection.reset_said());
  EXPECT_TRUE(pair.b.connection.closing().reset());
  EXPECT_EQ(pair.read(pair.b).size(), 16384U);
}

TEST_F(ConnectionAbort, AFinBeforeAnAbortIsToldWithIt) {
  pair.write(pair.a, "bye");
  pair.a.connection.shutdown_write();
  pair.a.connection.abort(Connection::Abort::kBehindData);
  pair.settle();
  EXPECT_EQ(pair.read(pair.b), "bye");
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kReset);
  EXPECT_TRUE(pair.b.connection.closing().peer_ended());
}

// As Linux ends a connection whose data nobody has taken for a while.
wire::CdcMessage closed_with_data_left(ConnectionPair& pair) {
  wire::CdcMessage last = pair.a.on_the_way.back();
  pair.a.on_the_way.clear();
  last.producer_flags.write_blocked = true;
  last.state.done_writing = last.state.closed = true;
  return last;
}

// Its end, and then its reset.
void close_with_data_left_and_abort(ConnectionPair& pair) {
  pair.write_and_transmit(pair.a, "half of it");
  wire::CdcMessage message = closed_with_data_left(pair);
  ASSERT_TRUE(pair.b.connection.handle_cdc(message, pair.now));
  message.sequence++;
  message.state.aborted = true;
  ASSERT_TRUE(pair.b.connection.handle_cdc(message, pair.now));
}

TEST_F(ConnectionAbort, AFinThatWasSaidTooEarlyIsNoneOnceTheConnectionIsReset) {
  ASSERT_NO_FATAL_FAILURE(close_with_data_left_and_abort(pair));
  EXPECT_EQ(pair.read(pair.b), "half of it");
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kReset);
  EXPECT_TRUE(pair.b.connection.rx().write_blocked());
  // No wait makes it one.
  EXPECT_EQ(pair.b.connection.next_deadline(), std::nullopt);
  pair.b.connection.handle_deadline(pair.now + kCloseGrace);
  EXPECT_TRUE(pair.b.connection.rx().write_blocked());
}

TEST_F(ConnectionAbort, TheElementOfAPeerThatWaitsForRoomIsNotReleased) {
  pair.write_and_transmit(pair.a, "half of it");
  ASSERT_TRUE(pair.b.connection.handle_cdc(closed_with_data_left(pair), pair.now));
  EXPECT_EQ(pair.read(pair.b), "half of it");
  pair.b.connection.abort();
  pair.transmit(pair.b);
  EXPECT_TRUE(pair.b.connection.finished());
  EXPECT_TRUE(pair.b.connection.closing().peer_writes_on(pair.b.connection.rx().write_blocked()));
}

TEST_F(ConnectionAbort, TheElementOfAPeerThatHasAbortedIsReleasedThoughItWaitedForRoom) {
  ASSERT_NO_FATAL_FAILURE(close_with_data_left_and_abort(pair));
  pair.transmit(pair.b);
  EXPECT_TRUE(pair.b.connection.finished());
  EXPECT_TRUE(pair.b.connection.closing().said_aborted());
  EXPECT_TRUE(pair.b.connection.rx().write_blocked());
  EXPECT_FALSE(pair.b.connection.closing().peer_writes_on(true));
}

TEST_F(ConnectionAbort, WhatALostPeerAnnouncedCanStillBeRead) {
  pair.write_and_settle(pair.a, "last words");
  pair.b.connection.handle_link_lost();
  EXPECT_TRUE(pair.b.connection.reset_said());
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kNone);
  EXPECT_EQ(pair.read(pair.b), "last words");
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kReset);
}

TEST_F(ConnectionAbort, SimultaneousAbortsFinish) {
  pair.a.connection.abort();
  pair.b.connection.abort();
  pair.settle();
  EXPECT_TRUE(pair.both_finished());
}

TEST_F(ConnectionAbort, NothingIsSentOnceTheLinkIsLost) {
  pair.write(pair.a, "x");
  pair.a.connection.handle_link_lost();
  EXPECT_FALSE(pair.a.connection.transmit_due());
  EXPECT_EQ(pair.a.connection.rx_end(), StreamEnd::kReset);
  EXPECT_TRUE(pair.a.connection.finished());
}

TEST_F(ConnectionAbort, AnAbortAtOnceWritesNothingMore) {
  pair = ConnectionPair(16384, 16384, 16384);
  pair.write(pair.a, "never sent");
  pair.a.connection.abort();
  const Transmit last = pair.next_transmit(pair.a);
  EXPECT_TRUE(last.cdc.state.aborted);
  EXPECT_EQ(last.write_count, 0U);
  EXPECT_EQ(last.cdc.producer, wire::CdcCursor{});
  EXPECT_FALSE(pair.a.connection.transmit_due());
  pair.a.connection.handle_link_switched(pair.a.connection.tx().element());
  const Transmit again = pair.next_transmit(pair.a);
  EXPECT_EQ(again.write_count, 0U);
}

// It would be a FIN before the end: nothing is written again behind an abort.
TEST_F(ConnectionAbort, AFinWhoseBytesDiedWithTheLinkIsNotSaidOverTheNext) {
  pair = ConnectionPair(16384, 16384, 16384);
  pair.write(pair.a, "whole");
  pair.a.connection.shutdown_write();
  const Transmit lost = pair.next_transmit(pair.a);
  EXPECT_TRUE(lost.cdc.state.done_writing);
  pair.a.connection.abort(Connection::Abort::kBehindData);
  (void)pair.next_transmit(pair.a);
  pair.a.connection.handle_link_switched(pair.a.connection.tx().element());
  const Transmit again = pair.next_transmit(pair.a);
  EXPECT_TRUE(again.cdc.state.aborted);
  EXPECT_FALSE(again.cdc.state.done_writing);
  EXPECT_EQ(again.cdc.producer, wire::CdcCursor{});
}

// Its application reads nothing any more.
TEST_F(ConnectionAbort, NothingIsWrittenFromTheSendRingForAPeerThatHasClosed) {
  pair = ConnectionPair(16384, 16384, 16384);
  pair.b.connection.close();
  pair.transmit(pair.b);
  pair.write(pair.a, "too late");
  ASSERT_TRUE(pair.deliver(pair.b));
  EXPECT_FALSE(pair.a.connection.transmit_due());
  pair.a.connection.close();
  const Transmit last = pair.next_transmit(pair.a);
  EXPECT_EQ(last.write_count, 0U);
  EXPECT_TRUE(last.cdc.state.closed);
  EXPECT_TRUE(ended_in_order(pair.a.connection));
}

TEST_F(ConnectionAbort, WhatIsInTheElementOfAPeerThatHasClosedIsStillAnnounced) {
  pair.b.connection.close();
  pair.transmit(pair.b);
  pair.write(pair.a, "in time");
  ASSERT_TRUE(pair.deliver(pair.b));
  const Transmit announced = pair.next_transmit(pair.a);
  EXPECT_EQ(announced.cdc.producer, (wire::CdcCursor{0, 7}));
}

TEST_F(ConnectionAbort, AnElementIsReleasedUnlessItsPeerHasClosedAndWaitsForRoom) {
  ConnectionPair open;
  open.b.connection.abort();
  open.transmit(open.b);
  EXPECT_FALSE(open.b.connection.closing().peer_writes_on(true));  // it has not closed
  ConnectionPair closed;
  closed.a.connection.close();
  closed.settle();
  EXPECT_FALSE(closed.b.connection.closing().peer_writes_on(true));  // nothing was aborted
  closed.b.connection.abort();
  closed.transmit(closed.b);
  EXPECT_TRUE(closed.b.connection.closing().peer_writes_on(true));
  EXPECT_FALSE(closed.b.connection.closing().peer_writes_on(false));
  EXPECT_FALSE(ended_in_order(closed.b.connection));
}

}  // namespace
}  // namespace fairlead::smc
