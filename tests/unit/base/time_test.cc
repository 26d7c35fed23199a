#include "base/time.h"

#include <gtest/gtest.h>

namespace fairlead {
namespace {

constexpr TimePoint at(int nanoseconds) { return TimePoint(Duration(nanoseconds)); }

TEST(DeadlineTest, TheEarliestOfTwoIsTheOneThatIsThere) {
  EXPECT_EQ(earliest(at(1), at(2)), at(1));
  EXPECT_EQ(earliest(at(2), at(1)), at(1));
  EXPECT_EQ(earliest(std::nullopt, at(2)), at(2));
  EXPECT_EQ(earliest(at(2), std::nullopt), at(2));
  EXPECT_EQ(earliest(std::nullopt, std::nullopt), std::nullopt);
}

TEST(DeadlineTest, IsDueFromItsMomentOn) {
  EXPECT_FALSE(is_due(at(2), at(1)));
  EXPECT_TRUE(is_due(at(2), at(2)));
  EXPECT_TRUE(is_due(at(2), at(3)));
  EXPECT_FALSE(is_due(std::nullopt, at(3)));
}

}  // namespace
}  // namespace fairlead
