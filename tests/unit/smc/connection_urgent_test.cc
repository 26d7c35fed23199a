// Urgent data in the CDC's flags: as Linux expects it, as Linux sends it, and from a hostile peer.

#include <gtest/gtest.h>

#include <random>

#include "connection_pair.h"
#include "smc/connection/connection.h"

namespace fairlead::smc {
namespace {

using ConnectionUrgent = ConnectionPairTest;

TEST_F(ConnectionUrgent, TheByteIsAWindowOfItsOwn) {
  pair.write(pair.a, "before");
  ASSERT_TRUE(pair.write_urgent(pair.a, '!'));
  pair.settle();
  EXPECT_FALSE(pair.b.connection.rx().urgent());
  EXPECT_EQ(pair.read(pair.b), "before");
  EXPECT_TRUE(pair.b.connection.rx().urgent());
  EXPECT_EQ(pair.read(pair.b), "!");
  EXPECT_FALSE(pair.b.connection.rx().urgent());
}

TEST_F(ConnectionUrgent, TheSenderWaitsUntilTheByteIsConsumedAndTold) {
  pair.write(pair.a, "before");
  pair.write_urgent(pair.a, '!');
  pair.settle();
  EXPECT_EQ(pair.a.connection.tx_window().bytes(), 0U);
  EXPECT_EQ(pair.a.connection.tx_blocked(), std::nullopt);  // the element is not full
  pair.read(pair.b);
  pair.settle();
  EXPECT_EQ(pair.a.connection.tx_window().bytes(), 0U);
  pair.read(pair.b);
  EXPECT_TRUE(pair.b.connection.transmit_due());
  pair.settle();
  EXPECT_EQ(pair.a.connection.tx_window().bytes(), 16384U);
  pair.write_and_settle(pair.a, "behind");
  EXPECT_FALSE(pair.b.connection.rx().urgent());
  EXPECT_EQ(pair.read(pair.b), "behind");
}

TEST_F(ConnectionUrgent, TheMessageThatEndsBehindTheByteHasBothFlags) {
  pair.write(pair.a, "four");
  pair.write_urgent(pair.a, '!');
  const Transmit transmit = pair.next_transmit(pair.a);
  EXPECT_EQ(transmit.cdc.producer, (wire::CdcCursor{0, 5}));
  EXPECT_TRUE(transmit.cdc.producer_flags.urgent_pending);
  EXPECT_TRUE(transmit.cdc.producer_flags.urgent_present);
  EXPECT_FALSE(pair.a.connection.transmit_due());
  pair.a.connection.shutdown_write();
  const Transmit next = pair.next_transmit(pair.a);
  EXPECT_TRUE(next.cdc.state.done_writing);
  EXPECT_FALSE(next.cdc.producer_flags.urgent_pending);
  EXPECT_FALSE(next.cdc.producer_flags.urgent_present);
}

TEST_F(ConnectionUrgent, MessagesBeforeTheByteSayThatItIsPending) {
  pair = ConnectionPair(16384, 16384, 32768);  // the send ring holds more than the peer
  const std::string bytes(20000, 'z');
  pair.write(pair.a, bytes);
  pair.write_urgent(pair.a, '!');
  pair.transmit(pair.a);
  EXPECT_TRUE(pair.a.on_the_way.back().producer_flags.urgent_pending);
  EXPECT_FALSE(pair.a.on_the_way.back().producer_flags.urgent_present);
  pair.settle();
  std::string got;
  while (!pair.b.connection.rx().urgent()) {
    got += pair.read(pair.b);
    pair.settle();
  }
  EXPECT_EQ(got, bytes);
  EXPECT_EQ(pair.read(pair.b), "!");
}

TEST_F(ConnectionUrgent, ANewerByteMakesTheOlderOrdinary) {
  for (std::uint16_t i = 1; i <= 2; ++i) {
    wire::CdcMessage message = next_message(pair.b, i);
    message.producer = {0, i * 5U};
    message.producer_flags.urgent_present = true;
    ASSERT_TRUE(pair.b.connection.handle_cdc(message, pair.now));
  }
  EXPECT_EQ(pair.read(pair.b).size(), 9U);
  EXPECT_TRUE(pair.b.connection.rx().urgent());
  EXPECT_EQ(pair.read(pair.b).size(), 1U);
}

TEST_F(ConnectionUrgent, DataBehindTheByteStaysOrdinary) {
  wire::CdcMessage message = next_message(pair.b, 1);
  message.producer = {0, 5};
  message.producer_flags.urgent_present = true;
  ASSERT_TRUE(pair.b.connection.handle_cdc(message, pair.now));
  message = next_message(pair.b, 2);
  message.producer = {0, 50};
  ASSERT_TRUE(pair.b.connection.handle_cdc(message, pair.now));
  EXPECT_EQ(pair.read(pair.b).size(), 4U);
  EXPECT_TRUE(pair.b.connection.rx().urgent());
  EXPECT_EQ(pair.read(pair.b).size(), 1U);
  EXPECT_EQ(pair.read(pair.b).size(), 45U);
}

TEST_F(ConnectionUrgent, AMessageBeforeTheByteIsReadDoesNotMakeItOrdinary) {
  pair.write(pair.a, "before");
  pair.write_urgent(pair.a, '!');
  pair.settle();
  pair.write_and_settle(pair.b, "meanwhile");
  EXPECT_EQ(pair.read(pair.b), "before");
  EXPECT_FALSE(pair.b.connection.transmit_due());  // the peer waits for the byte alone
  EXPECT_TRUE(pair.b.connection.rx().urgent());
  EXPECT_EQ(pair.read(pair.b), "!");
}

TEST_F(ConnectionUrgent, BehindTheByteReadsAreAnnouncedAsUsual) {
  pair.write_urgent(pair.a, '!');
  pair.settle();
  pair.read(pair.b);
  pair.settle();
  pair.write_and_settle(pair.a, "behind");
  EXPECT_EQ(pair.read(pair.b), "behind");
  EXPECT_FALSE(pair.b.connection.transmit_due());
}

TEST_F(ConnectionUrgent, AFlagThatNamesNoUnreadByteIsIgnored) {
  std::uint16_t sequence = 0;
  const auto hear = [&](std::uint32_t produced, bool urgent) {
    wire::CdcMessage message = next_message(pair.b, ++sequence);
    message.producer = {0, produced};
    message.producer_flags.urgent_present = urgent;
    EXPECT_TRUE(pair.b.connection.handle_cdc(message, pair.now));
  };
  hear(0, true);  // nothing was sent at all
  EXPECT_FALSE(pair.b.connection.rx().urgent());
  hear(5, false);
  EXPECT_EQ(pair.read(pair.b).size(), 5U);
  hear(5, true);  // all of it was read before
  EXPECT_EQ(pair.b.connection.rx().window().bytes(), 0U);
  hear(20, false);
  hear(3, true);  // a cursor that was already passed
  EXPECT_EQ(pair.read(pair.b).size(), 15U);
}

TEST_F(ConnectionUrgent, AFlagBeyondTheFreeSpaceResetsTheConnection) {
  wire::CdcMessage message = next_message(pair.b, 1);
  message.producer = {1, 1};
  message.producer_flags.urgent_present = true;
  EXPECT_FALSE(pair.b.connection.handle_cdc(message, pair.now));
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kReset);
}

class ConnectionUrgentSwitch : public testing::TestWithParam<std::uint32_t> {};

TEST_P(ConnectionUrgentSwitch, TheByteIsAnnouncedAgainWhenItsLinkDies) {
  ConnectionPair pair(16384, 16384, GetParam());
  pair.write(pair.a, "before");
  pair.write_urgent(pair.a, '!');
  pair.transmit(pair.a);
  pair.switch_link();
  pair.transmit(pair.a);
  // Linux would treat "pending" without new data as a second urgent byte.
  EXPECT_FALSE(pair.a.on_the_way.back().producer_flags.urgent_pending);
  EXPECT_TRUE(pair.a.on_the_way.back().producer_flags.urgent_present);
  pair.settle();
  EXPECT_EQ(pair.read(pair.b), "before");
  EXPECT_TRUE(pair.b.connection.rx().urgent());
  EXPECT_EQ(pair.read(pair.b), "!");
  pair.settle();
  EXPECT_NE(pair.a.connection.tx_window().bytes(), 0U);
}

TEST_P(ConnectionUrgentSwitch, TheByteIsUrgentOnceWhenItsAnnouncementArrivedBefore) {
  ConnectionPair pair(16384, 16384, GetParam());
  pair.write(pair.a, "before");
  pair.write_urgent(pair.a, '!');
  pair.transmit(pair.a);
  ASSERT_TRUE(pair.deliver(pair.a));
  pair.read(pair.b);
  pair.read(pair.b);
  pair.transmit(pair.b);  // the confirmation is lost
  pair.switch_link();
  pair.settle();
  EXPECT_EQ(pair.b.connection.rx().window().bytes(), 0U);
  EXPECT_NE(pair.a.connection.tx_window().bytes(), 0U);
  pair.write_and_settle(pair.a, "behind");
  EXPECT_FALSE(pair.b.connection.rx().urgent());
  EXPECT_EQ(pair.read(pair.b), "behind");
}

INSTANTIATE_TEST_SUITE_P(DirectAndStaged, ConnectionUrgentSwitch, testing::Values(0U, 32768U));

// Rings of different sizes, so that the byte has every position in a ring.
class ConnectionUrgentStream : public testing::TestWithParam<std::uint32_t> {};

TEST_P(ConnectionUrgentStream, EachByteArrivesInItsPlaceAndUrgent) {
  ConnectionPair pair(65536, 32768, GetParam());
  std::mt19937 random(7);
  std::string sent, received;
  std::vector<std::size_t> urgent_sent, urgent_received;
  while (received.size() < (1 << 20)) {
    if (random() % 4 == 0) {
      const char byte = static_cast<char>(random());
      if (pair.write_urgent(pair.a, byte)) {
        urgent_sent.push_back(sent.size());
        sent += byte;
      }
    } else {
      std::string chunk(1 + random() % 9000, ' ');
      for (char& c : chunk) c = static_cast<char>(random());
      sent += chunk.substr(0, pair.write(pair.a, chunk));
    }
    pair.settle();
    if (random() % 3 == 0) continue;
    if (pair.b.connection.rx().urgent()) urgent_received.push_back(received.size());
    received += pair.read(pair.b);
    ASSERT_EQ(received, sent.substr(0, received.size()));
  }
  urgent_sent.resize(urgent_received.size());
  EXPECT_EQ(urgent_received, urgent_sent);
  EXPECT_GT(urgent_received.size(), 50U);
}

INSTANTIATE_TEST_SUITE_P(DirectAndStaged, ConnectionUrgentStream, testing::Values(0U, 16384U));

}  // namespace
}  // namespace fairlead::smc
