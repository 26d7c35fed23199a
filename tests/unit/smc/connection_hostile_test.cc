// Cursors of a broken or hostile peer: the connection is aborted, and the application never sees a
// byte that was not announced.

#include <gtest/gtest.h>

#include "connection_pair.h"
#include "smc/connection/connection.h"

namespace fairlead::smc {
namespace {

TEST(HostileCursor, AbortsTheConnectionAndNothingElse) {
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
    ConnectionPair pair;
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

TEST(Connection, APeerMayNotUseRoomThatWasNotAnnounced) {
  ConnectionPair pair;
  pair.write_and_settle(pair.a, std::string(1000, 'x'));
  pair.read(pair.b);  // free again, but not announced
  wire::CdcMessage message = next_message(pair.b, 2);
  message.producer = {1, 1};
  EXPECT_FALSE(pair.b.connection.handle_cdc(message, pair.now));
}

}  // namespace
}  // namespace fairlead::smc
