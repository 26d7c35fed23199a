// Goal: a connection waits no longer, and no shorter, than it must. Method: messages as a kernel or
// another proxy sends them, with a clock that the test moves.

#include <gtest/gtest.h>

#include "connection_pair.h"
#include "smc/connection/connection.h"

namespace fairlead::smc {
namespace {

class ConnectionDeadline : public testing::Test {
 protected:
  void hear(wire::CdcMessage message) {
    message.sequence = ++sequence;
    message.token = connection.local_token();
    ASSERT_TRUE(connection.handle_cdc(message, now));
  }
  // The sender lacks room, and its stream has ended.
  static wire::CdcMessage blocked_end(std::uint32_t produced = 0) {
    return {.producer = {0, produced},
            .producer_flags = {.write_blocked = true},
            .state = {.done_writing = true}};
  }
  // A message number that this side has not received.
  void find_something_missing() {
    wire::CdcMessage validation{.sequence = static_cast<std::uint16_t>(sequence + 10),
                                .producer_flags = {.failover_validation = true}};
    ASSERT_TRUE(connection.handle_cdc(validation, now));
  }
  void read_all() { connection.consumed(connection.rx().window().bytes(), now); }
  void drain() {
    while (connection.poll_transmit()) continue;
  }
  std::optional<TimePoint> due() const { return connection.next_deadline(); }

  ConnectionPair pair;
  Connection& connection = pair.b.connection;
  TimePoint now = pair.now;
  std::uint16_t sequence = 0;
};

TEST_F(ConnectionDeadline, ABlockedEndWithNothingToReadIsWaitedForAtOnce) {
  hear(blocked_end());
  EXPECT_EQ(due(), now + kCloseGrace);
  now += kCloseGrace / 2;
  hear(blocked_end());  // says nothing new
  EXPECT_EQ(due(), pair.now + kCloseGrace);
  connection.handle_deadline(pair.now + kCloseGrace - Duration(1));
  EXPECT_EQ(connection.rx_end(), StreamEnd::kNone);
  connection.handle_deadline(pair.now + kCloseGrace);
  EXPECT_EQ(due(), std::nullopt);
  EXPECT_EQ(connection.rx_end(), StreamEnd::kFin);
}

TEST_F(ConnectionDeadline, ABlockedSenderThatHasNotEndedIsNotWaitedFor) {
  hear(wire::CdcMessage{.producer = {0, 100}, .producer_flags = {.write_blocked = true}});
  read_all();
  EXPECT_EQ(due(), std::nullopt);
  connection.handle_deadline(now + std::chrono::hours(1));
  EXPECT_TRUE(connection.rx().write_blocked());
}

TEST_F(ConnectionDeadline, MoreBytesEndTheWaitForMore) {
  hear(blocked_end(10));
  EXPECT_EQ(due(), std::nullopt);  // these have to be read first
  read_all();
  EXPECT_EQ(due(), now + kCloseGrace);
  hear(blocked_end(20));
  EXPECT_EQ(due(), std::nullopt);
  now += std::chrono::seconds(1);
  read_all();
  EXPECT_EQ(due(), now + kCloseGrace);
}

TEST_F(ConnectionDeadline, ALinkThatIsLostEndsEveryWait) {
  hear(blocked_end());
  find_something_missing();
  connection.handle_link_lost();
  EXPECT_EQ(due(), std::nullopt);
}

TEST_F(ConnectionDeadline, AnAbortOfThePeerEndsTheWaitAlsoWhereThisSideHasClosed) {
  connection.close();
  drain();
  hear(blocked_end());
  EXPECT_EQ(due(), now + kCloseGrace);
  wire::CdcMessage abort = blocked_end();
  abort.state.aborted = true;
  hear(abort);
  EXPECT_EQ(due(), std::nullopt);
  EXPECT_TRUE(connection.finished());
  EXPECT_TRUE(connection.closing().reset());
  EXPECT_TRUE(connection.reset_said());  // an answer is not expected
  EXPECT_FALSE(connection.transmit_due());
}

TEST_F(ConnectionDeadline, TheEarlierOfTwoWaitsIsNext) {
  hear(blocked_end(10));
  find_something_missing();
  read_all();
  EXPECT_EQ(due(), now + kCloseGrace);
  now += kValidationWait - kCloseGrace / 2;
  connection.handle_deadline(now);  // the grace is over, and the other wait goes on
  EXPECT_EQ(due(), pair.now + kValidationWait);
  EXPECT_FALSE(connection.closing().reset());
}

TEST_F(ConnectionDeadline, WhatIsFoundMissingIsWaitedForOnceAndItsTime) {
  hear({});
  find_something_missing();
  const TimePoint until = now + kValidationWait;
  EXPECT_EQ(due(), until);
  now += std::chrono::seconds(1);
  find_something_missing();
  EXPECT_EQ(due(), until);
  connection.handle_deadline(until - Duration(1));
  EXPECT_FALSE(connection.closing().reset());
  connection.handle_deadline(until);
  EXPECT_TRUE(connection.closing().reset());
  EXPECT_EQ(connection.rx_end(), StreamEnd::kReset);
  EXPECT_EQ(due(), std::nullopt);
}

TEST_F(ConnectionDeadline, AMissingMessageIsWaitedForLongerThanAnEndThatBeginsLate) {
  hear(blocked_end(10));
  find_something_missing();
  now += kValidationWait - kCloseGrace / 2;
  read_all();
  EXPECT_EQ(due(), pair.now + kValidationWait);
}

TEST_F(ConnectionDeadline, AValidationOfWhatHasArrivedMissesNothing) {
  hear({});
  hear({});
  for (const std::uint16_t named : {std::uint16_t{1}, std::uint16_t{2}}) {
    wire::CdcMessage validation{.sequence = named, .producer_flags = {.failover_validation = true}};
    ASSERT_TRUE(connection.handle_cdc(validation, now));
    EXPECT_EQ(due(), std::nullopt) << named;
  }
}

}  // namespace
}  // namespace fairlead::smc
