// Goal: a namespace with many values excludes no other namespace from a table, and namespaces take
// turns.
#include "injector/namespace_shares.h"

#include <gtest/gtest.h>

namespace fairlead::injector {
namespace {

constexpr std::size_t kTotalMax = 64;
constexpr std::size_t kShareMax = 8;

std::string name_of(std::size_t number) { return "tenant-" + std::to_string(number); }

TEST(NamespaceShares, ANamespaceHasItsShareAlone) {
  NamespaceShares<int> shares(kTotalMax);
  for (std::size_t i = 0; i < kShareMax; ++i) EXPECT_EQ(shares.add("evil", 1), Added::kAdded);
  EXPECT_FALSE(shares.admits("evil"));
  EXPECT_EQ(shares.add("evil", 2), Added::kRefused);
  EXPECT_EQ(shares.add("victim", 3), Added::kAdded);
  EXPECT_EQ(shares.size(), kShareMax + 1);
}

TEST(NamespaceShares, AFullTableTakesFromTheLargestNamespace) {
  NamespaceShares<int> shares(kTotalMax);
  for (std::size_t i = 0; i < kTotalMax; ++i)
    ASSERT_EQ(shares.add(name_of(i % kShareMax), static_cast<int>(i)), Added::kAdded);
  EXPECT_EQ(shares.add("victim", -1), Added::kDisplaced);
  EXPECT_EQ(shares.size(), kTotalMax);
  EXPECT_EQ(shares.size_of(name_of(0)), kShareMax - 1);
  EXPECT_FALSE(shares.contains(name_of(0), [](int value) { return value == 0; }));
  EXPECT_TRUE(shares.contains(name_of(0), [](int value) { return value == int{kShareMax}; }));
}

TEST(NamespaceShares, DisplacingComesToAnEnd) {
  constexpr std::size_t kRounds = 1000;
  NamespaceShares<int> shares(kTotalMax);
  std::size_t displaced = 0;
  for (std::size_t i = 0; i < kRounds * kTotalMax; ++i)
    displaced += shares.add(name_of(i % (2 * kShareMax)), 0) == Added::kDisplaced;
  EXPECT_LE(displaced, kTotalMax);
  EXPECT_EQ(shares.size(), kTotalMax);
}

TEST(NamespaceShares, NamespacesTakeTurns) {
  NamespaceShares<int> shares(kTotalMax);
  EXPECT_FALSE(shares.take());
  for (const int value : {1, 2, 3}) shares.add("a", value);
  shares.add("b", 10);
  for (const int expected : {1, 10, 2, 3}) EXPECT_EQ(shares.take(), expected);
  EXPECT_TRUE(shares.empty());
}

TEST(NamespaceShares, ErasedValuesMakeRoom) {
  NamespaceShares<int> shares(kTotalMax);
  for (std::size_t i = 0; i < kShareMax; ++i) shares.add("a", static_cast<int>(i % 2));
  shares.erase_if([](int value) { return value == 1; });
  EXPECT_EQ(shares.size(), kShareMax / 2);
  EXPECT_TRUE(shares.admits("a"));
  shares.erase_if([](int) { return true; });
  EXPECT_TRUE(shares.empty());
}

}  // namespace
}  // namespace fairlead::injector
