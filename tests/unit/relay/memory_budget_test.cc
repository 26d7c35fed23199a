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

class PeerRingsOfAGroup : public Budget {
 protected:
  void claim(const PeerRingId& ring, std::size_t bytes = kMiB) {
    auto reserved = rings_.reserve(bytes);
    ASSERT_TRUE(reserved);
    ASSERT_TRUE(rings_.claim(*reserved, ring, bytes));
  }
  std::size_t charged() const { return budget_.used_bytes(MemoryUse::kPeerRings); }

  PeerRings rings_{budget_};
  const PeerRingId first_{RemoteKey{7}, RemoteAddress{4096}};
  const PeerRingId second_{RemoteKey{7}, RemoteAddress{8192}};
  const PeerRingId other_{RemoteKey{8}, RemoteAddress{4096}};
};

TEST_F(PeerRingsOfAGroup, AnElementIsPaidForOnceHoweverManyConnectionsUseIt) {
  for (int i = 0; i < 3; ++i) {
    claim(first_);
    rings_.release(first_);
  }
  EXPECT_EQ(charged(), kMiB);
}

TEST_F(PeerRingsOfAGroup, ALargerElementThanAssumedNeedsRoomForTheRest) {
  auto reserved = rings_.reserve(kMiB);
  ASSERT_TRUE(reserved);
  EXPECT_FALSE(rings_.claim(*reserved, first_, 25 * kMiB));
  EXPECT_TRUE(rings_.claim(*reserved, first_, 2 * kMiB));
  EXPECT_EQ(charged(), 2 * kMiB);
}

TEST_F(PeerRingsOfAGroup, ADeletedKeyFreesItsElementsOnceNobodyUsesThem) {
  claim(first_);
  claim(second_);
  claim(other_);
  EXPECT_FALSE(rings_.release(first_));
  EXPECT_FALSE(rings_.forget(RemoteKey{7}));
  EXPECT_EQ(charged(), 2 * kMiB);
  EXPECT_TRUE(rings_.release(second_));
  EXPECT_EQ(charged(), kMiB);
  EXPECT_FALSE(rings_.release(other_));
  EXPECT_TRUE(rings_.forget(RemoteKey{8}));
  EXPECT_EQ(charged(), 0u);
}

TEST_F(PeerRingsOfAGroup, APeerThatNamesAnotherElementEachTimeIsNoticed) {
  for (std::uint32_t i = 0; i <= kIdlePeerRingsMax; ++i) {
    EXPECT_FALSE(rings_.crowded());
    const PeerRingId ring{RemoteKey{1}, RemoteAddress{i * 16384ULL}};
    claim(ring, 16384);
    rings_.release(ring);
  }
  EXPECT_TRUE(rings_.crowded());
}

}  // namespace
}  // namespace fairlead::relay
