#include "base/time.h"

#include <gtest/gtest.h>

#include "base/utc_time.h"

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

TEST(UtcTextTest, IsRfc3339ToTheSecondOrMillisecond) {
  constexpr std::time_t kMoment = 1795728599;
  const auto moment = std::chrono::system_clock::from_time_t(kMoment);
  EXPECT_EQ(utc_text(kMoment), "2026-11-26T21:29:59Z");
  EXPECT_EQ(utc_text(moment), "2026-11-26T21:29:59.000Z");
  EXPECT_EQ(utc_text(moment + std::chrono::microseconds(7999)), "2026-11-26T21:29:59.007Z");
  EXPECT_EQ(utc_text(std::chrono::system_clock::time_point() - std::chrono::milliseconds(1)),
            "1969-12-31T23:59:59.999Z");
}

}  // namespace
}  // namespace fairlead
