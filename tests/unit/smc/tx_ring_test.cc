// Goal: what leaves a ring towards the peer, with which flags, and what is left when it stops.
// Method: two connections; the test looks at each transmission.

#include "smc/connection/tx_ring.h"

#include <gtest/gtest.h>

#include "connection_pair.h"
#include "smc/connection/connection.h"

namespace fairlead::smc {
namespace {

constexpr std::uint32_t kBytes = 16384;

TEST(TxRing, ATransmissionThatWrapsHasTwoWrites) {
  ConnectionPair pair(kBytes, 2 * kBytes, kBytes);
  for (const std::size_t bytes : {10000U, 16000U}) {
    pair.write_and_settle(pair.a, std::string(bytes, 'x'));
    pair.read(pair.b);
    pair.settle();
  }
  pair.write(pair.a, std::string(kBytes, 'y'));
  const Transmit transmit = pair.next_transmit(pair.a);
  ASSERT_EQ(transmit.write_count, 2U);
  const auto& writes = transmit.writes;
  EXPECT_EQ(writes[0].ring_offset, 26000U - kBytes);
  EXPECT_EQ(writes[0].remote_offset, 26000U);
  EXPECT_EQ(writes[0].length, 2 * kBytes - 26000U);
  EXPECT_EQ(writes[1].ring_offset, 0U);
  EXPECT_EQ(writes[1].remote_offset, 0U);
  EXPECT_EQ(writes[0].length + writes[1].length, kBytes);
}

TEST(TxRing, OnePieceIsOneWrite) {
  ConnectionPair pair(kBytes, kBytes, kBytes);
  pair.write(pair.a, "x");
  const Transmit transmit = pair.next_transmit(pair.a);
  EXPECT_EQ(transmit.write_count, 1U);
  EXPECT_FALSE(transmit.cdc.producer_flags.write_blocked);
}

// A peer that sees "blocked" beside the end waits for more.
TEST(TxRing, AnEndThatFillsTheElementExactlyIsNotBlocked) {
  for (const std::uint32_t staging : {0U, kBytes}) {
    ConnectionPair pair(kBytes, kBytes, staging);
    pair.write(pair.a, std::string(kBytes, 'x'));
    pair.a.connection.shutdown_write();
    const Transmit transmit = pair.next_transmit(pair.a);
    EXPECT_TRUE(transmit.cdc.state.done_writing);
    EXPECT_FALSE(transmit.cdc.producer_flags.write_blocked);
  }
}

TEST(TxRing, EachUrgentByteIsPendingOnce) {
  ConnectionPair pair;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(pair.write_urgent(pair.a, '!'));
    pair.transmit(pair.a);
    EXPECT_TRUE(pair.a.on_the_way.back().producer_flags.urgent_pending) << i;
    EXPECT_TRUE(pair.a.on_the_way.back().producer_flags.urgent_present) << i;
    pair.settle();
    EXPECT_EQ(pair.read(pair.b), "!");
    pair.settle();
  }
}

// A peer with access to the element may see the byte before it is announced.
TEST(TxRing, AnUrgentByteThatIsConsumedAlreadyIsNotAnnouncedAsUrgent) {
  ConnectionPair pair;
  ASSERT_TRUE(pair.write_urgent(pair.a, '!'));
  wire::CdcMessage update{.sequence = 1, .consumer = {0, 1}};
  ASSERT_TRUE(pair.a.connection.handle_cdc(update, pair.now));
  const Transmit transmit = pair.next_transmit(pair.a);
  EXPECT_EQ(transmit.cdc.producer, (wire::CdcCursor{0, 1}));
  EXPECT_FALSE(transmit.cdc.producer_flags.urgent_pending);
  EXPECT_FALSE(transmit.cdc.producer_flags.urgent_present);
}

TEST(TxRing, AStoppedSendRingGivesBackWhatHasNotLeftIt) {
  ConnectionPair pair(kBytes, kBytes, 2 * kBytes);
  EXPECT_TRUE(pair.a.connection.tx().all_consumed());
  pair.write_and_settle(pair.a, std::string(kBytes, 'x') + "rest");
  EXPECT_EQ(pair.a.connection.tx().taken(), kBytes + 4U);
  EXPECT_EQ(pair.a.connection.tx().bytes(), kBytes);
  EXPECT_EQ(pair.a.connection.stop_sending(), (RingWindow{{kBytes, 4}, {0, 0}}));
  EXPECT_EQ(pair.read(pair.b), std::string(kBytes, 'x'));
  pair.settle();
  EXPECT_EQ(pair.b.connection.rx().window().bytes(), 0U);
  EXPECT_FALSE(pair.a.connection.tx().all_consumed());
  EXPECT_EQ(pair.a.connection.tx().pending(), 4U);
}

TEST(TxRing, AStoppedSendRingStillRepeatsWhatALinkLost) {
  ConnectionPair pair(kBytes, kBytes, kBytes);
  pair.write_and_transmit(pair.a, "lost");
  pair.write(pair.a, "kept");
  EXPECT_EQ(pair.a.connection.stop_sending(), (RingWindow{{4, 4}, {0, 0}}));
  pair.switch_link();
  pair.settle();
  EXPECT_EQ(pair.read(pair.b), "lost");
  pair.settle();
  EXPECT_EQ(pair.read(pair.b), "");
}

TEST(TxRing, WithoutASendRingNothingIsLeftToGiveBack) {
  ConnectionPair pair;
  pair.write(pair.a, "there");
  EXPECT_EQ(pair.a.connection.stop_sending(), RingWindow{});
  EXPECT_FALSE(pair.a.connection.tx().all_consumed());
  pair.settle();
  EXPECT_EQ(pair.read(pair.b), "there");
  pair.b.connection.consumed(0, pair.now, Connection::Announce::kAll);
  pair.settle();
  EXPECT_TRUE(pair.a.connection.tx().all_consumed());
}

}  // namespace
}  // namespace fairlead::smc
