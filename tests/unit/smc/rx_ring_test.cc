// Goal: the peer hears of free room when it helps, and not after each read. Method: a ring whose
// positions the test moves.
#include "smc/connection/rx_ring.h"

#include <gtest/gtest.h>

namespace fairlead::smc {
namespace {

constexpr std::uint32_t kSize = 64 * 1024;
constexpr std::uint32_t kLimit = kSize / 10;

RxRing ring(std::uint32_t produced, std::uint32_t consumed, bool write_blocked = false) {
  RxRing made(kSize);
  made.peer_has_produced(produced);
  made.take_flags({.producer_flags = {.write_blocked = write_blocked}});
  made.consumed(consumed);
  return made;
}

TEST(RxRing, AnnouncesMuchRoomToASenderWithHalfOfItLeft) {
  constexpr std::uint32_t kHalf = kSize / 2;
  EXPECT_TRUE(ring(kHalf, kLimit + 1).update_due(false));
  EXPECT_FALSE(ring(kHalf, kLimit).update_due(false));          // not enough to tell
  EXPECT_FALSE(ring(kHalf - 1, kLimit + 1).update_due(false));  // the sender has room
}

TEST(RxRing, AnnouncesMuchRoomToABlockedSenderWhateverItHasLeft) {
  EXPECT_TRUE(ring(kLimit + 1, kLimit + 1, true).update_due(false));
  EXPECT_FALSE(ring(kLimit, kLimit, true).update_due(false));
}

TEST(RxRing, ASmallElementHasTheLeastLimit) {
  const auto due = [](std::uint32_t consumed) {
    RxRing small(kElementBytesMin);
    small.peer_has_produced(kElementBytesMin);
    small.consumed(consumed);
    return small.update_due(false);
  };
  EXPECT_FALSE(due(kUpdateBytesMin));
  EXPECT_TRUE(due(kUpdateBytesMin + 1));
}

// A kernel that has closed with data left goes on when it sees room, however little.
TEST(RxRing, AnnouncesToAPeerThatHasEndedOnlyIfItIsBlocked) {
  EXPECT_TRUE(ring(10, 10, true).update_due(true));
  EXPECT_FALSE(ring(kSize, kSize).update_due(true));
  EXPECT_FALSE(ring(10, 0, true).update_due(true));  // there is nothing to announce
}

TEST(RxRing, AnAnnouncementThatWasAskedForIsDueOnce) {
  RxRing asked = ring(10, 5);
  asked.take_flags(wire::CdcMessage{.producer_flags = {.consumer_update_requested = true}});
  asked.take_flags({});  // a later message does not take it back
  EXPECT_TRUE(asked.update_due(false));
  wire::CdcMessage update;
  asked.fill_cursor(update);
  EXPECT_EQ(update.consumer, (wire::CdcCursor{0, 5}));
  asked.confirm();
  asked.consumed(5);
  EXPECT_FALSE(asked.update_due(false));
}

TEST(RxRing, CountsWhatWasReadAndReceived) {
  const RxRing some = ring(10, 4);
  EXPECT_EQ(some.received(), 10U);
  EXPECT_EQ(some.bytes(), 4U);
  EXPECT_FALSE(some.drained());
  EXPECT_EQ(some.window(), (RingWindow{{4, 6}, {0, 0}}));
  EXPECT_TRUE(ring(10, 10).drained());
}

}  // namespace
}  // namespace fairlead::smc
