#include "relay/worker/spin.h"

#include <gtest/gtest.h>

namespace fairlead::relay {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{std::chrono::hours(1)};

TEST(SpinBudget, AllowsTheConfiguredTime) {
  SpinBudget budget(microseconds(50), 10);
  EXPECT_EQ(budget.allowance(kStart), microseconds(50));
}

TEST(SpinBudget, ZeroMeansNever) {
  SpinBudget budget(Duration::zero(), 100);
  EXPECT_EQ(budget.allowance(kStart), Duration::zero());
}

// Goal: a worker that polls without success uses no more than its share. Method: ten seconds of
// misses.
TEST(SpinBudget, FruitlessPollingIsHeldToItsShare) {
  SpinBudget budget(microseconds(50), 10);
  Duration spent{};
  for (TimePoint now = kStart; now < kStart + seconds(10);) {
    const Duration allowed = budget.allowance(now);
    budget.miss(allowed);
    spent += allowed;
    now += std::max<Duration>(allowed, microseconds(10));
  }
  EXPECT_LE(spent, seconds(1) + SpinBudget::kBucket);
  EXPECT_GE(spent, milliseconds(900));
}

TEST(SpinBudget, PollingThatFindsSomethingIsFree) {
  SpinBudget budget(microseconds(50), 10);
  for (int i = 0; i < 1000000; ++i) ASSERT_EQ(budget.allowance(kStart), microseconds(50));
}

TEST(SpinBudget, ShareOfAHundredNeedsNoCredit) {
  SpinBudget budget(microseconds(50), 100);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(budget.allowance(kStart), microseconds(50));
    budget.miss(microseconds(50));
  }
}

TEST(SpinBudget, StopsWhenSomebodyKeepsTheCore) {
  SpinBudget budget(microseconds(50), 10);
  EXPECT_FALSE(budget.yielded(microseconds(30), kStart));
  EXPECT_TRUE(budget.yielded(SpinBudget::kYieldMax, kStart));
  EXPECT_EQ(budget.allowance(kStart + microseconds(1)), Duration::zero());
  EXPECT_NE(budget.allowance(kStart + SpinBudget::kBackoffMin), Duration::zero());
}

TEST(SpinBudget, BacksOffTwiceAsLongEachTimeAndRecovers) {
  SpinBudget budget(microseconds(50), 10);
  budget.yielded(SpinBudget::kYieldMax, kStart);
  const TimePoint again = kStart + SpinBudget::kBackoffMin;
  budget.yielded(SpinBudget::kYieldMax, again);
  EXPECT_EQ(budget.allowance(again + SpinBudget::kBackoffMin), Duration::zero());
  EXPECT_NE(budget.allowance(again + 2 * SpinBudget::kBackoffMin), Duration::zero());
  const TimePoint later = again + seconds(3600);
  budget.yielded(SpinBudget::kYieldMax, later);
  EXPECT_NE(budget.allowance(later + SpinBudget::kBackoffMin), Duration::zero());
}

}  // namespace
}  // namespace fairlead::relay
