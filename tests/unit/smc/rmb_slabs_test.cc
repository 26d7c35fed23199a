#include "smc/group/rmb_slabs.h"

#include <gtest/gtest.h>

#include <set>

#include "smc/connection/cursor.h"

namespace fairlead::smc {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;
constexpr TimePoint kNow{std::chrono::hours(1)};
constexpr Duration kSecond = std::chrono::seconds(1);

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
  slabs.release(*first, kNow);
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

// Slabs of one element each, most of which have been freed again.
struct EmptySlabs : RmbSlabs {
  explicit EmptySlabs(unsigned count, std::set<unsigned> kept = {}) {
    for (unsigned i = 0; i < count; ++i) add({0, 1});
    for (unsigned i = 0; i < count; ++i) taken.push_back(*take(0));
    for (unsigned i = 0; i < count; ++i)
      if (!kept.contains(i)) release(taken[i], kNow + i * kSecond);
  }
  std::vector<ElementId> taken;
};

TEST(RmbSlabs, RetireWhenTheyHaveStoodEmptyForLongEnough) {
  EmptySlabs slabs(3, {0});
  EXPECT_EQ(slabs.idle_since(), kNow + kSecond);
  EXPECT_FALSE(slabs.retire(kNow));
  EXPECT_EQ(slabs.retire(kNow + kSecond), 1);
  EXPECT_FALSE(slabs.retire(kNow + kSecond));
  EXPECT_EQ(slabs.idle_since(), kNow + 2 * kSecond);
  EXPECT_EQ(slabs.retire(kNow + 2 * kSecond), 2);
  EXPECT_FALSE(slabs.idle_since());
}

TEST(RmbSlabs, TheLastOneStaysWhicheverItIs) {
  EmptySlabs slabs(3);
  EXPECT_EQ(slabs.retire(kNow + kSecond), 1);
  EXPECT_EQ(slabs.retire(kNow + kSecond), 0);
  EXPECT_FALSE(slabs.retire(kNow + 9 * kSecond));
  EXPECT_FALSE(slabs.idle_since());
  EXPECT_EQ(slabs.take(0)->slab, 2);
}

TEST(RmbSlabs, OneThatIsUsedAgainBeginsAnew) {
  EmptySlabs slabs(2, {1});
  const auto again = slabs.take(0);
  EXPECT_FALSE(slabs.retire(kNow + 9 * kSecond));
  slabs.release(*again, kNow + 9 * kSecond);
  EXPECT_FALSE(slabs.retire(kNow + 8 * kSecond));
  EXPECT_EQ(slabs.retire(kNow + 9 * kSecond), 0);
}

TEST(RmbSlabs, NobodyIsSeatedInARetiredOne) {
  EmptySlabs slabs(2, {0});
  EXPECT_EQ(slabs.retire(kNow + kSecond), 1);
  EXPECT_FALSE(slabs.take(0));
  EXPECT_FALSE(slabs.can_take_at_most(0, 0));
  EXPECT_EQ(slabs.total_bytes(), 2U * 16 * 1024);
}

TEST(RmbSlabs, TheNumberOfARemovedOneIsGivenAgain) {
  EmptySlabs slabs(3, {0, 2});
  EXPECT_EQ(slabs.retire(kNow + kSecond), 1);
  slabs.remove(1);
  EXPECT_EQ(slabs.count(), 2U);
  EXPECT_EQ(slabs.total_bytes(), 2U * 16 * 1024);
  EXPECT_EQ(slabs.add({1, 2}), 1);
  EXPECT_EQ(slabs.take(1), (ElementId{1, RmbIndex{1}}));
  EXPECT_EQ(slabs.total_bytes(), 2U * 16 * 1024 + 2U * 32 * 1024);
}

TEST(RmbSlabs, OneThatNobodyHasUsedYetIsNotIdle) {
  EmptySlabs slabs(1, {0});
  slabs.add({1, 1});
  EXPECT_FALSE(slabs.retire(kNow + 9 * kSecond));
}

TEST(RmbSlabsDeathTest, RemovingOneThatIsNotRetiredAborts) {
  EmptySlabs slabs(2);
  EXPECT_DEATH(slabs.remove(1), "assertion failed");
}

// The peer does not know its rkey.
TEST(RmbSlabs, ABarredSlabTakesNobodyAndGoesEvenAsTheLast) {
  RmbSlabs slabs;
  const std::uint16_t slab = slabs.add({0, 4});
  const auto element = slabs.take(0);
  ASSERT_TRUE(element);
  slabs.bar(slab);
  slabs.bar(slab);
  EXPECT_EQ(slabs.barred_count(), 1U);
  EXPECT_FALSE(slabs.take(0));
  EXPECT_FALSE(slabs.can_take_at_most(5, 0));
  EXPECT_FALSE(slabs.idle_since());
  slabs.release(*element, kNow + 7 * kSecond);
  EXPECT_EQ(slabs.idle_since(), kNow + 7 * kSecond);
  EXPECT_FALSE(slabs.retire(kNow + 6 * kSecond));
  EXPECT_EQ(slabs.retire(kNow + 7 * kSecond), slab);
  EXPECT_EQ(slabs.barred_count(), 0U);
  EXPECT_TRUE(slabs.retired(slab));
  slabs.remove(slab);
  EXPECT_EQ(slabs.count(), 0U);
}

TEST(RmbSlabs, BesideABarredSlabTheLastOfTheOthersStays) {
  RmbSlabs slabs;
  const std::uint16_t first = slabs.add({0, 1});
  const std::optional<ElementId> element = slabs.take(0);
  ASSERT_TRUE(element);
  const std::uint16_t refused = slabs.add({0, 1});
  slabs.bar(refused);
  slabs.release(*element, kNow);
  EXPECT_FALSE(slabs.retire(kNow + 9 * kSecond));
  EXPECT_FALSE(slabs.retired(first));
  EXPECT_EQ(slabs.take(0), element);
}

TEST(RmbSlabs, TheLeastSizeIsGivenIfItIsAllThereIs) {
  RmbSlabs slabs;
  slabs.add({1, 2});
  EXPECT_TRUE(slabs.can_take_at_most(3, 1));
  EXPECT_FALSE(slabs.can_take_at_most(3, 2));
  const auto element = slabs.take_at_most(3, 1);
  ASSERT_TRUE(element);
  EXPECT_EQ(slabs.used_bytes(), 32U * 1024);
  EXPECT_TRUE(slabs.take_at_most(1, 1));
  EXPECT_FALSE(slabs.can_take_at_most(1, 1));
  slabs.release(*element, kNow);
  EXPECT_EQ(slabs.used_bytes(), 32U * 1024);
}

TEST(RmbSlabs, AreFullAtTheirLimitAndNotAfterARemoval) {
  EmptySlabs slabs(kSlabsMax);
  EXPECT_TRUE(slabs.full());
  slabs.remove(*slabs.retire(kNow + std::chrono::hours(1)));
  EXPECT_FALSE(slabs.full());
}

TEST(RmbSlabs, ARetiredSlabIsNotBarred) {
  EmptySlabs slabs(2);
  const auto retired = slabs.retire(kNow + kSecond);
  ASSERT_TRUE(retired);
  slabs.bar(*retired);
  EXPECT_EQ(slabs.barred_count(), 0U);
  EXPECT_TRUE(slabs.retired(*retired));
  EXPECT_EQ(slabs.retired_count(), 1U);
}

TEST(RmbSlabsDeathTest, ReleasingTwiceAborts) {
  RmbSlabs slabs;
  slabs.add({0, 1});
  const auto element = slabs.take(0);
  slabs.release(*element, kNow);
  EXPECT_DEATH(slabs.release(*element, kNow), "assertion failed");
}

TEST(SlabPlan, GivesTheWantedSizeWhileThereIsPlenty) {
  const auto plan = plan_slab({1024 * kMiB, 1024 * kMiB}, 0, 5, 0);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->size_code, 5);
  EXPECT_EQ(plan->element_count, 1U);
}

// A group with one connection costs one element. 255 connections cost a dozen slabs, not 255.
TEST(SlabPlan, GrowsWithWhatTheGroupHas) {
  const RingMemory plenty{4096 * kMiB, 4096 * kMiB};
  for (const std::uint8_t code : {std::uint8_t{0}, std::uint8_t{5}}) {
    std::size_t held = 0;
    unsigned elements = 0;
    unsigned slabs = 0;
    while (elements < 255) {
      const auto plan = plan_slab(plenty, held, code, 0);
      ASSERT_TRUE(plan);
      EXPECT_LE(plan->bytes(), kSlabBytesMax);
      EXPECT_LE(plan->bytes(), std::max({held, kSlabBytesFirst, std::size_t{element_bytes(code)}}));
      held += plan->bytes();
      elements += plan->element_count;
      ++slabs;
    }
    EXPECT_LT(slabs, 25U) << int{code};
    EXPECT_LE(held, 2 * 255 * std::size_t{element_bytes(code)}) << int{code};
  }
}

TEST(SlabPlan, FitsTheDefaultMemlockOfAPod) {
  const auto plan = plan_slab({6 * kMiB, 6 * kMiB}, 0, 5, 0);
  ASSERT_TRUE(plan);
  EXPECT_LT(plan->size_code, 5);
  EXPECT_LE(plan->bytes(), 6 * kMiB);
}

TEST(SlabPlan, IsNothingWhenNotEvenTheLeastFits) {
  EXPECT_FALSE(plan_slab({16 * 1024 - 1, kMiB}, 0, 5, 0));
  EXPECT_TRUE(plan_slab({16 * 1024, kMiB}, 0, 5, 0));
}

// Thousands of connections with a budget: sizes only decrease, and many get an element before the
// budget is used up.
TEST(SlabPlan, SeatsManyConnectionsOnASmallBudget) {
  RingMemory memory{256 * kMiB, 256 * kMiB};
  unsigned seats = 0;
  std::uint8_t last_code = 5;
  while (const auto plan = plan_slab(memory, 0, 5, 0)) {
    EXPECT_LE(plan->size_code, last_code);
    last_code = plan->size_code;
    memory.left_bytes -= plan->bytes();
    seats += plan->element_count;
  }
  EXPECT_EQ(last_code, 0);
  EXPECT_GT(seats, 1500U);
}

TEST(SlabPlan, AnElementMayHaveItsWholeShareAndNoMore) {
  const std::size_t all = kElementShare * element_bytes(3);
  EXPECT_EQ(plan_slab({all, all}, 0, 5, 0)->size_code, 3);
  EXPECT_EQ(plan_slab({all - 1, all - 1}, 0, 5, 0)->size_code, 2);
}

TEST(SlabPlan, NeverPlansLessThanTheLeastSize) {
  EXPECT_EQ(plan_slab({kMiB, 1024 * kMiB}, 0, 5, 2).value().size_code, 2);
}

}  // namespace
}  // namespace fairlead::smc
