// Cursors of a broken or hostile peer: the connection is aborted, and the application never sees a
// byte that was not announced.

#include <gtest/gtest.h>

#include "connection_pair.h"
#include "smc/connection/connection.h"

namespace fairlead::smc {
namespace {

wire::CdcMessage next_message(const Endpoint& to, std::uint16_t sequence) {
  wire::CdcMessage message;
  message.sequence = sequence;
  message.token = to.connection.local_token();
  return message;
}

struct BadCursor {
  const char* name;
  wire::CdcCursor producer;
  wire::CdcCursor consumer;
};

class HostileCursor : public testing::TestWithParam<BadCursor> {};

TEST_P(HostileCursor, AbortsTheConnectionAndNothingElse) {
  ConnectionPair pair;
  wire::CdcMessage message = next_message(pair.b, 1);
  message.producer = GetParam().producer;
  message.consumer = GetParam().consumer;
  const Result<void> taken = pair.b.connection.handle_cdc(message, pair.now);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Errc::kMalformed);
  EXPECT_EQ(pair.b.connection.rx_end(), StreamEnd::kReset);
  EXPECT_EQ(pair.b.connection.rx().window().bytes(), 0U);
  const auto answer = pair.b.connection.poll_transmit();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->cdc.state.aborted);
}

INSTANTIATE_TEST_SUITE_P(Cursors, HostileCursor,
                         testing::Values(BadCursor{"ProducerOutsideTheElement", {0, 16384}, {0, 0}},
                                         BadCursor{"ProducerFarOutside", {0, 0xffffffff}, {0, 0}},
                                         BadCursor{"ProducerBeyondFreeSpace", {1, 1}, {0, 0}},
                                         BadCursor{"ProducerWrapsAhead", {77, 0}, {0, 0}},
                                         BadCursor{"ConsumerBeforeAnythingWasSent", {0, 0}, {0, 1}},
                                         BadCursor{"ConsumerOutsideTheElement", {0, 0}, {0, 16384}},
                                         BadCursor{"ConsumerWrapsAhead", {0, 0}, {9, 9}}),
                         [](const auto& given) { return std::string(given.param.name); });

TEST(Connection, APeerMayNotUseRoomThatWasNotAnnounced) {
  ConnectionPair pair;
  pair.write(pair.a, std::string(1000, 'x'));
  pair.settle();
  pair.read(pair.b);  // free again, but not announced
  wire::CdcMessage message = next_message(pair.b, 2);
  message.producer = {1, 1};
  EXPECT_FALSE(pair.b.connection.handle_cdc(message, pair.now));
}

}  // namespace
}  // namespace fairlead::smc
