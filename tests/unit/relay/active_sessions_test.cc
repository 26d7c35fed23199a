// Which sessions have moved bytes lately: none, one, a few or many.

#include "relay/worker/active_sessions.h"

#include <gtest/gtest.h>

#include <array>

namespace fairlead::relay {
namespace {

struct Member {
  unsigned runs = 0;
};

class ActiveSessionsTest : public testing::Test {
 protected:
  // Adds so many of them.
  void add(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) active.add(members.at(i));
  }
  std::array<Member, kFewActiveMax + 2> members;
  ActiveSet<Member> active;
};

TEST_F(ActiveSessionsTest, OneIsSingleHoweverOftenItMovesBytes) {
  EXPECT_EQ(active.single(), nullptr);
  for (int i = 0; i < 10; ++i) active.add(members[0]);
  EXPECT_EQ(active.single(), &members[0]);
  EXPECT_FALSE(active.many());
  active.add(members[1]);
  EXPECT_EQ(active.single(), nullptr);
}

TEST_F(ActiveSessionsTest, MoreThanAFewAreMany) {
  add(kFewActiveMax);
  EXPECT_FALSE(active.many());
  add(kFewActiveMax + 1);
  EXPECT_TRUE(active.many());
}

TEST_F(ActiveSessionsTest, WhoHasEndedIsNotActive) {
  add(kFewActiveMax + 2);
  active.remove(members[kFewActiveMax + 1]);
  EXPECT_TRUE(active.many()) << "one beyond many is not told apart";
  active.remove(members[kFewActiveMax]);
  EXPECT_FALSE(active.many());
  for (std::size_t i = 1; i < kFewActiveMax; ++i) active.remove(members[i]);
  EXPECT_EQ(active.single(), &members[0]);
}

TEST_F(ActiveSessionsTest, WhoMovesNothingIsForgottenAfterSomeTurns) {
  active.add(members[0]);
  for (std::uint64_t turn = 1; turn < kActiveTurns; ++turn) active.turn_began();
  EXPECT_EQ(active.single(), &members[0]);
  active.turn_began();
  EXPECT_EQ(active.single(), nullptr);
  active.add(members[1]);
  EXPECT_EQ(active.single(), &members[1]);
}

TEST_F(ActiveSessionsTest, NewsIsExpectedWhileOneHasLasted) {
  members[0].runs = kLastingRuns - 1;
  active.add(members[0]);
  EXPECT_FALSE(active.lasting());
  members[0].runs = kLastingRuns;
  active.add(members[0]);
  EXPECT_TRUE(active.lasting());
  members[1].runs = 1;
  for (std::uint64_t turn = 0; turn < kActiveTurns; ++turn) {
    EXPECT_TRUE(active.lasting());
    active.turn_began();
    active.add(members[1]);
  }
  EXPECT_FALSE(active.lasting());
}

}  // namespace
}  // namespace fairlead::relay
