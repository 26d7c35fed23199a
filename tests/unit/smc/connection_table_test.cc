#include "smc/connection_table.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace fairlead::smc
