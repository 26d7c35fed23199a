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

TEST(BoundedQueue, TakesMemoryForWhatItHolds) {
  BoundedQueue<int> queue(100);
  EXPECT_EQ(queue.allocated_bytes(), 0U);
  int next = 0;
  for (int i = 0; i < 7; ++i) queue.push(i);
  for (; next < 5; ++next) EXPECT_EQ(queue.pop(), next);
  EXPECT_EQ(queue.allocated_bytes(), 8 * sizeof(int));
  // It grows while its front is in the middle.
  for (int i = 7; i < 105; ++i) queue.push(i);
  EXPECT_TRUE(queue.full());
  EXPECT_EQ(queue.allocated_bytes(), 100 * sizeof(int));
  for (; next < 105; ++next) EXPECT_EQ(queue.pop(), next);
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
