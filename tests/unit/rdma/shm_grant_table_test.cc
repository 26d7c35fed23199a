// Only the peer that got a grant may take its memory. At the limit the owner with most grants loses
// the oldest one.
#include "rdma/shm/channel/shm_grant_table.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include "broker/shared_objects.h"

namespace fairlead::rdma::shm {
namespace {

constexpr PeerId kOne{{1}}, kTwo{{2}};

TEST(ShmGrantTable, GivesEachGrantOnce) {
  const FileDescriptor memory = std::move(broker::make_memory("test", 4096).value());
  MapBudget budget;
  GrantTable grants;
  for (int i = 0; i < 2; ++i)
    grants.add(kOne, 0, {1, 7}, std::move(budget.map(memory.get()).value()));
  EXPECT_FALSE(grants.take(kTwo, {1, 7}));
  EXPECT_FALSE(grants.take(kOne, {2, 7}));
  EXPECT_TRUE(grants.take(kOne, {1, 7}));
  EXPECT_TRUE(grants.take(kOne, {1, 7}));
  EXPECT_FALSE(grants.take(kOne, {1, 7}));
  EXPECT_EQ(budget.count(), 0u);
}

class ShmGrantLimit : public testing::Test {
 protected:
  void add(GrantTable& table, PeerId peer, std::uint64_t number, std::uint32_t pod = 0) {
    table.add(peer, pod, {1, number}, CountedMapping());
  }
  void add_all(PeerId peer, std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t number = first; number <= last; ++number) add(grants_, peer, number);
  }
  bool take(PeerId peer, std::uint64_t number) {
    return grants_.take(peer, {1, number}).has_value();
  }

  GrantTable grants_{6};
};

TEST_F(ShmGrantLimit, TheLimitIsExact) {
  add_all(kOne, 1, 6);
  EXPECT_EQ(grants_.count(), 6u);
  EXPECT_TRUE(take(kOne, 1));
  add_all(kOne, 7, 7);
  EXPECT_TRUE(take(kOne, 2));
  add_all(kOne, 8, 9);
  EXPECT_EQ(grants_.count(), 6u);
  EXPECT_FALSE(take(kOne, 3));
  EXPECT_TRUE(take(kOne, 4));
}

TEST_F(ShmGrantLimit, WhoHadManyAndHasNoneLosesNothing) {
  add_all(kOne, 1, 5);
  for (std::uint64_t number = 1; number <= 5; ++number) EXPECT_TRUE(take(kOne, number));
  EXPECT_EQ(grants_.count(), 0u);
  add_all(kTwo, 1, 6);
  add_all(kOne, 6, 6);
  EXPECT_EQ(grants_.count(), 6u);
  EXPECT_TRUE(take(kOne, 6));
  EXPECT_FALSE(take(kTwo, 1));
  EXPECT_TRUE(take(kTwo, 2));
}

TEST_F(ShmGrantLimit, WhoStillHasMostLosesTheOldestThatIsLeft) {
  add_all(kOne, 1, 5);
  EXPECT_TRUE(take(kOne, 1));
  add_all(kTwo, 1, 3);  // kOne has four of six when the last comes
  EXPECT_EQ(grants_.count(), 6u);
  EXPECT_FALSE(take(kOne, 2));
  for (const std::uint64_t number : {3u, 4u, 5u}) EXPECT_TRUE(take(kOne, number)) << number;
  for (const std::uint64_t number : {1u, 2u, 3u}) EXPECT_TRUE(take(kTwo, number)) << number;
}

TEST_F(ShmGrantLimit, WhoIsForgottenMakesRoom) {
  add_all(kOne, 1, 4);
  add_all(kTwo, 1, 2);
  grants_.forget(kOne);
  EXPECT_EQ(grants_.count(), 2u);
  add_all(kTwo, 3, 6);
  for (std::uint64_t number = 1; number <= 6; ++number) EXPECT_TRUE(take(kTwo, number)) << number;
  EXPECT_FALSE(take(kOne, 4));
}

// The names of a pod count together. Without pods each has one, and who has two has most.
TEST_F(ShmGrantLimit, PeersOfOnePodShareAndThoseOfNoneDoNot) {
  for (const std::uint32_t pod : {0u, 3u}) {
    GrantTable grants(5);
    add(grants, PeerId{{10}}, 1, pod);
    add(grants, PeerId{{11}}, 1, pod);
    add(grants, PeerId{{12}}, 1, pod);
    add(grants, kOne, 1, pod == 0 ? 0 : 4);
    add(grants, kOne, 2, pod == 0 ? 0 : 4);
    add(grants, kTwo, 1, pod == 0 ? 0 : 5);
    EXPECT_EQ(grants.take(PeerId{{10}}, {1, 1}).has_value(), pod == 0) << pod;
    EXPECT_EQ(grants.take(kOne, {1, 1}).has_value(), pod != 0) << pod;
    EXPECT_EQ(grants.count(), 4u) << pod;
  }
}

// Nobody can be told apart from one who never came.
TEST_F(ShmGrantLimit, NothingIsKeptOfThoseWhoHaveTakenAll) {
  const auto come_and_go = [&](std::uint32_t names) {
    for (std::uint32_t i = 0; i < names; ++i) {
      const PeerId peer{{static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i >> 8)}};
      add(grants_, peer, 1);
      EXPECT_TRUE(grants_.take(peer, {1, 1}));
    }
    return ::mallinfo2().uordblks;
  };
  const std::size_t before = come_and_go(10);
  EXPECT_LE(come_and_go(10'000), before + 4096);
}

}  // namespace
}  // namespace fairlead::rdma::shm
