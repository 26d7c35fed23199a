#include "smc/rmb_slabs.h"

#include <gtest/gtest.h>

#include <set>

#include "smc/cursor.h"

namespace fairlead::smc {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;

TEST(RmbSlabs, IndexesElementsFromOneAndGivesEachOnce) {
  RmbSlabs slabs;
  slabs.add({0, 255});
  std::set<std::uint8_t> seen;
  for (int i = 0; i < 255; ++i) {
    const auto element = slabs.take(0);
    ASSERT_TRUE(element);
    EXPECT_NE(element->index.value, 0);
    EXPECT_TRUE(seen.insert(element->index.value).second);
  }
  EXPECT_FALSE(slabs.take(0));
  EXPECT_EQ(slabs.used_bytes(), slabs.total_bytes());
}

TEST(RmbSlabs, GivesAReleasedElementAgain) {
  RmbSlabs slabs;
  slabs.add({2, 1});
  const auto first = slabs.take(2);
  ASSERT_TRUE(first);
  EXPECT_FALSE(slabs.take(2));
  slabs.release(*first);
  EXPECT_EQ(slabs.take(2), first);
}

TEST(RmbSlabs, StepsDownToWhatIsFree) {
  RmbSlabs slabs;
  slabs.add({1, 1});
  slabs.add({3, 1});
  EXPECT_FALSE(slabs.take(5));
  EXPECT_EQ(slabs.size_code(slabs.take_at_most(5, 0)->slab), 3);
  EXPECT_EQ(slabs.size_code(slabs.take_at_most(5, 0)->slab), 1);
  EXPECT_FALSE(slabs.take_at_most(5, 0));
}

TEST(RmbSlabs, NeverGivesLessThanTheLeastSize) {
  RmbSlabs slabs;
  slabs.add({0, 4});
  EXPECT_FALSE(slabs.take_at_most(5, 1));
}

TEST(RmbSlabsDeathTest, ReleasingTwiceAborts) {
  RmbSlabs slabs;
  slabs.add({0, 1});
  const auto element = slabs.take(0);
  slabs.release(*element);
  EXPECT_DEATH(slabs.release(*element), "assertion failed");
}

TEST(SlabPlan, GivesTheWantedSizeWhileThereIsPlenty) {
  const auto plan = plan_slab({1024 * kMiB, 1024 * kMiB}, 5, 0);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->size_code, 5);
  EXPECT_EQ(plan->bytes(), kSlabBytesWanted);
}

TEST(SlabPlan, FitsTheDefaultMemlockOfAPod) {
  const auto plan = plan_slab({6 * kMiB, 6 * kMiB}, 5, 0);
  ASSERT_TRUE(plan);
  EXPECT_LT(plan->size_code, 5);
  EXPECT_LE(plan->bytes(), 6 * kMiB);
}

TEST(SlabPlan, IsNothingWhenNotEvenTheLeastFits) {
  EXPECT_FALSE(plan_slab({16 * 1024 - 1, kMiB}, 5, 0));
  EXPECT_TRUE(plan_slab({16 * 1024, kMiB}, 5, 0));
}

// Thousands of connections on a budget: sizes only go down, and many are seated before it is spent.
TEST(SlabPlan, SeatsManyConnectionsOnASmallBudget) {
  RingMemory memory{256 * kMiB, 256 * kMiB};
  unsigned seats = 0;
  std::uint8_t last_code = 5;
  while (const auto plan = plan_slab(memory, 5, 0)) {
    EXPECT_LE(plan->size_code, last_code);
    last_code = plan->size_code;
    memory.left_bytes -= plan->bytes();
    seats += plan->element_count;
  }
  EXPECT_EQ(last_code, 0);
  EXPECT_GT(seats, 1500U);
}

}  // namespace
}  // namespace fairlead::smc
