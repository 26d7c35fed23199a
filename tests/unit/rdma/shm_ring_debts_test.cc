// Debts for bells that take long to ring, when very many pods have some.
#include "rdma/shm/memory/shm_ring_debts.h"

#include <gtest/gtest.h>

#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

constexpr Duration kTooMuch = kRingDebtMax + std::chrono::milliseconds(1);
constexpr TimePoint kBegin{std::chrono::seconds(1)};
// Paid back by then, or not by far.
constexpr TimePoint kPaid = kBegin + 2 * kRingDebtShare * kTooMuch;

class ShmRingDebtors : public testing::Test {
 protected:
  bool owes(std::uint32_t pod, TimePoint now) const { return !debts_.good(pod, PeerId{}, now); }
  void add_pods(std::uint32_t from, std::uint32_t to, TimePoint now) {
    for (; from < to; ++from) ASSERT_FALSE(debts_.add(from, PeerId{}, kTooMuch, now)) << from;
  }

  RingDebts debts_;
};

TEST_F(ShmRingDebtors, WhatIsFreeIsNotOwed) {
  EXPECT_TRUE(debts_.add(1, PeerId{}, kRingDebtMax + kRingTimeFree, kBegin));
  EXPECT_FALSE(owes(1, kBegin));
  EXPECT_TRUE(debts_.add(1, PeerId{}, kRingTimeFree, kBegin));
  EXPECT_FALSE(debts_.add(1, PeerId{}, kRingTimeFree + Duration(1), kBegin));
  EXPECT_TRUE(owes(1, kBegin));
}

TEST_F(ShmRingDebtors, IsPaidWithAShareOfTheTimeThatPasses) {
  EXPECT_FALSE(debts_.add(1, PeerId{}, 2 * kRingDebtMax + kRingTimeFree, kBegin));
  const TimePoint good_again = kBegin + kRingDebtShare * Duration(kRingDebtMax);
  EXPECT_TRUE(owes(1, good_again - kRingDebtShare * Duration(1)));
  EXPECT_FALSE(owes(1, good_again));
}

TEST_F(ShmRingDebtors, NobodyPaysAhead) {
  EXPECT_FALSE(debts_.add(1, PeerId{}, kTooMuch, kBegin));
  EXPECT_TRUE(debts_.add(1, PeerId{}, kRingDebtMax + kRingTimeFree, kPaid));
  EXPECT_FALSE(debts_.add(1, PeerId{}, kRingTimeFree + Duration(1), kPaid));
}

TEST_F(ShmRingDebtors, APodOwesUnderAllNamesAndAPeerWithoutPodUnderItsOwn) {
  const PeerId one{{1}}, other{{2}};
  EXPECT_FALSE(debts_.add(1, one, kTooMuch, kBegin));
  EXPECT_FALSE(debts_.good(1, other, kBegin));
  EXPECT_TRUE(debts_.good(0, one, kBegin));
  EXPECT_FALSE(debts_.add(0, one, kTooMuch, kBegin));
  EXPECT_FALSE(debts_.good(0, one, kBegin));
  EXPECT_TRUE(debts_.good(0, other, kBegin));
}

TEST_F(ShmRingDebtors, ThoseWhoHavePaidMakeRoom) {
  constexpr std::uint32_t kHalf = kRingDebtorsMax / 2;
  add_pods(1, 1 + kHalf, kBegin);
  add_pods(1 + kHalf, 1 + kRingDebtorsMax, kPaid);
  EXPECT_FALSE(owes(1, kPaid));
  EXPECT_FALSE(debts_.add(1 + kRingDebtorsMax, PeerId{}, kTooMuch, kPaid));
  for (std::uint32_t pod = 1 + kHalf; pod <= 1 + kRingDebtorsMax; ++pod)
    ASSERT_TRUE(owes(pod, kPaid)) << pod;
}

TEST_F(ShmRingDebtors, OneTooManyWhoOweAreForgottenTogether) {
  add_pods(1, 1 + kRingDebtorsMax, kBegin);
  EXPECT_TRUE(owes(1, kBegin));
  EXPECT_FALSE(debts_.add(1 + kRingDebtorsMax, PeerId{}, kTooMuch, kBegin));
  for (std::uint32_t pod = 1; pod <= kRingDebtorsMax; ++pod) ASSERT_FALSE(owes(pod, kBegin)) << pod;
  EXPECT_TRUE(owes(1 + kRingDebtorsMax, kBegin));
}

}  // namespace
}  // namespace fairlead::rdma::shm
