// Goal: no byte is lost or repeated, and no end or consumer update is missed, if the link fails at
// any time. Method: connection_pair.h; writes arrive together with their message, or never.
#include <random>

#include "unit/smc/connection_pair.h"

namespace fairlead::smc {
namespace {

class Failover : public testing::TestWithParam<std::uint32_t> {
 protected:
  ConnectionPair pair{16384, 16384, GetParam()};
};
INSTANTIATE_TEST_SUITE_P(DirectAndStaged, Failover, testing::Values(0, 16384));

TEST_P(Failover, LostDataIsSentAgainBehindAValidation) {
  pair.write_and_settle(pair.a, "one ");
  EXPECT_EQ(pair.read(pair.b), "one ");
  pair.write_and_transmit(pair.a, "two");
  pair.switch_link();
  EXPECT_EQ(pair.a.connection.tx().element().rkey, RemoteKey{101});
  pair.transmit(pair.a);
  ASSERT_EQ(pair.a.on_the_way.size(), 2U);
  const wire::CdcMessage& validation = pair.a.on_the_way[0];
  EXPECT_TRUE(validation.producer_flags.failover_validation);
  EXPECT_EQ(validation.sequence, 0);  // one before the last that was completed
  EXPECT_EQ(validation.token, AlertToken{0x202});
  EXPECT_EQ(validation.producer, wire::CdcCursor{});
  EXPECT_EQ(pair.a.on_the_way[1].sequence, 3);
  EXPECT_FALSE(pair.a.on_the_way[1].producer_flags.failover_validation);
  pair.settle();
  EXPECT_EQ(pair.read(pair.b), "two");
}

TEST_P(Failover, WhatArrivedUnseenIsNotRepeated) {
  pair.write_and_transmit(pair.a, "one ");
  pair.switch_link(1);
  EXPECT_EQ(pair.read(pair.b), "one ");
  pair.settle();
  EXPECT_EQ(pair.read(pair.b), "");
  pair.write_and_settle(pair.a, "two");
  EXPECT_EQ(pair.read(pair.b), "two");
}

TEST_P(Failover, ALostConsumerUpdateIsRecovered) {
  const std::string full(16384, 'x');
  EXPECT_EQ(pair.write(pair.a, full), full.size());
  pair.settle();
  EXPECT_EQ(pair.read(pair.b), full);
  EXPECT_NE(pair.transmit(pair.b), 0U);
  pair.switch_link();
  pair.settle();
  EXPECT_EQ(pair.a.connection.tx_window().bytes(), full.size());
}

// Linux repeats its cursor only when its application reads a new byte.
TEST(FailoverOfLinux, AFullElementLeavesAByteToAskWith) {
  constexpr std::uint32_t kBytes = 16384;
  constexpr std::uint32_t kUsed = kBytes - kSwitchReserveBytes;
  Connection connection(AlertToken{0x101}, kBytes);
  connection.set_peer(AlertToken{0x202}, {RemoteKey{1}, RemoteAddress{0}, kBytes}, kBytes,
                      kSwitchReserveBytes);
  connection.produced(kBytes);
  const wire::CdcMessage full = connection.poll_transmit()->cdc;
  EXPECT_EQ(full.producer, cursor_at(kUsed, kBytes));
  EXPECT_TRUE(full.producer_flags.write_blocked);
  EXPECT_FALSE(full.producer_flags.consumer_update_requested);
  for (std::uint32_t switches = 1; switches <= 3; ++switches) {
    connection.handle_link_switched({RemoteKey{switches}, RemoteAddress{0}, kBytes});
    EXPECT_TRUE(connection.poll_transmit()->validation);
    const auto asking = connection.poll_transmit();
    ASSERT_TRUE(asking);
    EXPECT_EQ(asking->cdc.producer, cursor_at(kUsed + switches, kBytes));
    EXPECT_TRUE(asking->cdc.producer_flags.consumer_update_requested);
    EXPECT_FALSE(connection.transmit_due());
  }
  wire::CdcMessage update{
      .sequence = 1, .token = AlertToken{0x101}, .consumer = cursor_at(kUsed + 3, kBytes)};
  ASSERT_TRUE(connection.handle_cdc(update, TimePoint{}));
  const auto rest = connection.poll_transmit();
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->cdc.producer, cursor_at(kBytes, kBytes));
  EXPECT_FALSE(rest->cdc.producer_flags.consumer_update_requested);
}

TEST_P(Failover, AValidationNamesTheMessageBeforeTheLastOneThatWasCompleted) {
  for (int i = 0; i < 3; ++i) {
    pair.write_and_settle(pair.a, "x");
  }
  pair.switch_link();
  const auto first = pair.a.connection.poll_transmit();
  const auto of_silent = pair.b.connection.poll_transmit();
  ASSERT_TRUE(first && of_silent);
  EXPECT_TRUE(first->validation);
  EXPECT_EQ(first->cdc.sequence, 2);
  EXPECT_TRUE(of_silent->validation);
  EXPECT_EQ(of_silent->cdc.sequence, 0);  // it has sent none
}

TEST_P(Failover, LostEndsAreRecovered) {
  pair.write(pair.a, "last");
  pair.a.connection.shutdown_write();
  pair.transmit(pair.a);
  pair.switch_link();
  pair.settle();
  EXPECT_EQ(pair.read(pair.b), "last");
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kFin);
  pair.a.connection.close();
  pair.b.connection.close();
  pair.settle();
  EXPECT_TRUE(pair.both_finished());
}

TEST_P(Failover, ALostCloseIsRecoveredWithoutValidation) {
  pair.a.connection.close();
  pair.transmit(pair.a);
  pair.switch_link();
  EXPECT_EQ(pair.transmit(pair.a), 1U);
  EXPECT_TRUE(pair.a.on_the_way[0].state.closed);
  pair.settle();
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kFin);
}

TEST_P(Failover, ALostAbortIsRecovered) {
  pair.a.connection.abort();
  pair.transmit(pair.a);
  pair.switch_link();
  EXPECT_FALSE(pair.a.connection.finished());
  pair.settle();
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kReset);
  EXPECT_TRUE(pair.a.connection.finished());
}

TEST_P(Failover, AValidationAheadIsForgottenWhenTheNextMessageSaysItAll) {
  wire::CdcMessage validation{.sequence = 5, .producer_flags = {.failover_validation = true}};
  EXPECT_TRUE(pair.a.connection.handle_cdc(validation, pair.now));
  EXPECT_EQ(pair.a.connection.next_deadline(), pair.now + kValidationWait);
  pair.write_and_settle(pair.b, "all");
  EXPECT_EQ(pair.a.connection.next_deadline(), std::nullopt);
  EXPECT_EQ(pair.read(pair.a), "all");
}

TEST_P(Failover, TheLinkMayDieAgainAtOnce) {
  pair.write_and_transmit(pair.a, "one");
  pair.switch_link();
  pair.transmit(pair.a);
  pair.switch_link(1);
  pair.switch_link();
  pair.settle();
  EXPECT_EQ(pair.read(pair.b), "one");
}

// Both streams arrive completely, whenever the links fail.
class FailoverSeeds : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Seeds, FailoverSeeds, testing::Range(0U, 100U));

TEST_P(FailoverSeeds, BytesInAreBytesOut) {
  std::mt19937 random(GetParam());
  const auto below = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
  const std::uint32_t sizes[] = {16384, 32768, 65536};
  ConnectionPair pair(sizes[below(3)], sizes[below(3)], below(2) == 0 ? 0 : sizes[below(3)]);
  struct Stream {
    Endpoint& from;
    std::uint64_t written = 0, read = 0;
  } streams[] = {{pair.a}, {pair.b}};
  const auto byte_at = [](std::uint64_t i) { return static_cast<char>(i * 131 + (i >> 9)); };
  for (int step = 0; step < 400; ++step) {
    Stream& stream = streams[below(2)];
    Endpoint& to = pair.other(stream.from);
    switch (below(5)) {
      case 0: {
        std::string bytes(below(30000), ' ');
        for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(stream.written + i);
        stream.written += pair.write(stream.from, bytes);
        break;
      }
      case 1:
        pair.transmit(stream.from);
        break;
      case 2:
        if (!stream.from.on_the_way.empty()) {
          ASSERT_TRUE(pair.deliver(stream.from));
        }
        break;
      case 3: {
        const std::string bytes = pair.read(to);
        for (char c : bytes) ASSERT_EQ(c, byte_at(stream.read++)) << "at " << stream.read;
        break;
      }
      case 4:
        if (below(4) == 0) pair.switch_link(below(4), below(4));
        break;
    }
  }
  for (Stream& stream : streams) stream.from.connection.shutdown_write();
  for (int round = 0; round < 20; ++round) {
    pair.settle();
    for (Stream& stream : streams) {
      const std::string bytes = pair.read(pair.other(stream.from));
      for (char c : bytes) ASSERT_EQ(c, byte_at(stream.read++));
    }
  }
  for (Stream& stream : streams) {
    EXPECT_EQ(stream.read, stream.written);
    EXPECT_EQ(pair.other(stream.from).connection.rx_end(), StreamEnd::kFin);
  }
}

}  // namespace
}  // namespace fairlead::smc
