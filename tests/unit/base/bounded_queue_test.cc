#include "base/bounded_queue.h"

#include <gtest/gtest.h>

namespace fairlead {
namespace {

TEST(BoundedQueue, KeepsOrderAcrossTheWrap) {
  BoundedQueue<int> queue(3);
  for (int round = 0; round < 5; ++round) {
    queue.push(2 * round);
    queue.push(2 * round + 1);
    EXPECT_EQ(queue.pop(), 2 * round);
    EXPECT_EQ(queue.pop(), 2 * round + 1);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(BoundedQueueDeathTest, OverflowAborts) {
  BoundedQueue<int> queue(1);
  queue.push(1);
  EXPECT_TRUE(queue.full());
  EXPECT_DEATH(queue.push(2), "assertion failed");
}

}  // namespace
}  // namespace fairlead
