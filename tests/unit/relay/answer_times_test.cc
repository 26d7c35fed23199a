#include "relay/connection/answer_times.h"

#include <gtest/gtest.h>

#include <utility>

namespace fairlead::relay {
namespace {

using std::chrono::milliseconds;

class AnswerTimesTest : public testing::Test {
 protected:
  // How many bytes have been sent and have come back until then.
  std::optional<Duration> at(int ms, int asked, int answered) {
    const bool more_asked = asked > std::exchange(asked_, asked);
    const bool more_answered = answered > std::exchange(answered_, answered);
    return times.note(more_asked, more_answered, begin + milliseconds(ms));
  }
  std::optional<Duration> longest(int ms) const { return times.longest(begin + milliseconds(ms)); }

  const TimePoint begin{std::chrono::hours(1)};
  AnswerTimes times;

 private:
  int asked_ = 0;
  int answered_ = 0;
};

TEST_F(AnswerTimesTest, TheFirstAnswerIsToldOnce) {
  EXPECT_EQ(at(0, 10, 0), std::nullopt);
  EXPECT_EQ(at(7, 10, 5), milliseconds(7));
  EXPECT_EQ(at(8, 10, 9), std::nullopt);
  EXPECT_EQ(at(20, 20, 9), std::nullopt);
  EXPECT_EQ(at(21, 20, 10), std::nullopt);
}

TEST_F(AnswerTimesTest, AWaitBeginsWithTheLatestByte) {
  at(0, 10, 0);
  at(100, 20, 0);
  EXPECT_EQ(at(103, 20, 1), milliseconds(3));
}

TEST_F(AnswerTimesTest, TheLongestWaitMayBeALaterOne) {
  at(0, 10, 0);
  at(5, 10, 5);
  at(10, 20, 5);
  at(217, 20, 6);
  at(220, 30, 6);
  at(221, 30, 7);
  EXPECT_EQ(longest(500), milliseconds(207));
}

TEST_F(AnswerTimesTest, AWaitThatNobodyEndsCounts) {
  at(0, 10, 0);
  EXPECT_EQ(longest(30), milliseconds(30));
}

TEST_F(AnswerTimesTest, WhoSpeaksUnaskedKeepsNobodyWaiting) {
  EXPECT_EQ(at(50, 0, 100), std::nullopt);
  EXPECT_EQ(longest(60), std::nullopt);
}

}  // namespace
}  // namespace fairlead::relay
