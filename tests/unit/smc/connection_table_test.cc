#include "smc/group/connection_table.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace fairlead::smc {
namespace {

TEST(ConnectionTable, ALateMessageOfAFormerConnectionFindsNobody) {
  int one = 0;
  ConnectionTable<int> table(1234);
  std::vector<AlertToken> tokens;
  for (unsigned i = 0; i < kConnectionsPerGroupMax; ++i) {
    const auto token = table.reserve();
    ASSERT_TRUE(token);
    EXPECT_NE(token->value, 0U);
    table.set(*token, &one);
    tokens.push_back(*token);
  }
  EXPECT_FALSE(table.reserve());
  table.release(tokens[7]);
  EXPECT_EQ(table.find(tokens[7]), nullptr);
  const auto again = table.reserve();
  ASSERT_TRUE(again);
  EXPECT_NE(*again, tokens[7]);
  EXPECT_EQ(table.find(*again), nullptr);  // reserved, nothing there yet
  EXPECT_EQ(table.find(AlertToken{0}), nullptr);
  EXPECT_EQ(table.find(AlertToken{0xffffffff}), nullptr);
}

TEST(ConnectionTable, TakesMemoryForTheConnectionsThatItHas) {
  int one = 0;
  ConnectionTable<int> table(1);
  EXPECT_EQ(table.allocated_bytes(), 0U);
  // One at a time, through all slots.
  std::size_t of_one = 0;
  for (unsigned i = 0; i < 2 * kConnectionsPerGroupMax; ++i) {
    const auto token = table.reserve();
    ASSERT_TRUE(token);
    table.set(*token, &one);
    if (i == 0) of_one = table.allocated_bytes();
    EXPECT_EQ(table.allocated_bytes(), of_one);
    table.release(*token);
    EXPECT_EQ(table.find(*token), nullptr);
    EXPECT_EQ(table.allocated_bytes(), 0U);
  }
  EXPECT_LE(of_one, 512U);
}

TEST(ConnectionTable, AVisitorMayReleaseWhatItIsGiven) {
  std::array<int, kConnectionsPerGroupMax> connections{};
  std::vector<AlertToken> tokens;
  ConnectionTable<int> table(1);
  for (int& connection : connections) {
    tokens.push_back(*table.reserve());
    table.set(tokens.back(), &connection);
  }
  table.for_each([&](int& connection) {
    ++connection;
    table.release(tokens[static_cast<std::size_t>(&connection - connections.data())]);
  });
  for (const int visits : connections) EXPECT_EQ(visits, 1);
  EXPECT_EQ(table.count(), 0U);
  EXPECT_EQ(table.allocated_bytes(), 0U);
}

}  // namespace
}  // namespace fairlead::smc
