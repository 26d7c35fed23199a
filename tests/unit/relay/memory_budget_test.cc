#include "relay/pipes/memory_budget.h"

#include <gtest/gtest.h>

#include "relay/group/peer_rings.h"

namespace fairlead::relay {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;

class Budget : public testing::Test {
 protected:
  WorkerStats stats_;
  MemoryBudget budget_{32 * kMiB, 0, stats_};
};

TEST_F(Budget, CountsByUseAndTellsTheStatistics) {
  ASSERT_TRUE(budget_.take(MemoryUse::kRings, kMiB));
  ASSERT_TRUE(budget_.take(MemoryUse::kConnections, 2 * kMiB));
  EXPECT_EQ(budget_.left_bytes(), 29 * kMiB);
  EXPECT_EQ(stats_.memory_used[MemoryUse::kConnections].get(), 2 * kMiB);
  EXPECT_EQ(stats_.memory_limit_bytes.get(), 32 * kMiB);
  budget_.give_back(MemoryUse::kRings, kMiB);
  EXPECT_EQ(stats_.memory_used[MemoryUse::kRings].get(), 0u);
}

TEST_F(Budget, RingsOfBothKindsLeaveAQuarterAlone) {
  ASSERT_TRUE(budget_.take(MemoryUse::kRings, 12 * kMiB));
  ASSERT_TRUE(budget_.take(MemoryUse::kPeerRings, 12 * kMiB));
  EXPECT_EQ(budget_.rings_left_bytes(), 0u);
  EXPECT_FALSE(budget_.take(MemoryUse::kPeerRings, 1));
  EXPECT_TRUE(budget_.take(MemoryUse::kConnections, 8 * kMiB));
  EXPECT_FALSE(budget_.take(MemoryUse::kConnections, 1));
}

TEST_F(Budget, RingsLeaveTheLastEighthWhateverElseWasUsed) {
  ASSERT_TRUE(budget_.take(MemoryUse::kConnections, 27 * kMiB));
  EXPECT_EQ(budget_.rings_left_bytes(), kMiB);
  EXPECT_FALSE(budget_.take(MemoryUse::kRings, 2 * kMiB));
}

TEST_F(Budget, AChargeThatWouldLeaveTooLittleForOthersIsRefused) {
  EXPECT_FALSE(MemoryCharge::take(budget_, MemoryUse::kConnections, 20 * kMiB, 16 * kMiB));
  auto charge = MemoryCharge::take(budget_, MemoryUse::kConnections, 10 * kMiB, 16 * kMiB);
  ASSERT_TRUE(charge);
  EXPECT_FALSE(charge->resize(20 * kMiB, 16 * kMiB));
  EXPECT_EQ(charge->bytes(), 10 * kMiB);
  EXPECT_TRUE(charge->resize(20 * kMiB));
  MemoryCharge moved = std::move(*charge);
  charge.reset();
  EXPECT_EQ(budget_.left_bytes(), 12 * kMiB);
  moved = {};
  EXPECT_EQ(budget_.left_bytes(), 32 * kMiB);
}

TEST_F(Budget, ALargerElementOfThePeerThanAssumedNeedsRoomForTheRest) {
  constexpr PeerRingId kRing{RemoteKey{7}, RemoteAddress{4096}};
  PeerRings rings(budget_);
  auto reserved = rings.reserve(kMiB);
  ASSERT_TRUE(reserved);
  EXPECT_FALSE(rings.claim(*reserved, kRing, 25 * kMiB));
  EXPECT_TRUE(rings.claim(*reserved, kRing, 2 * kMiB));
  EXPECT_EQ(budget_.used_bytes(MemoryUse::kPeerRings), 2 * kMiB);
}

}  // namespace
}  // namespace fairlead::relay
