#include "relay/connection/deadlines.h"

#include <gtest/gtest.h>

#include <vector>

namespace fairlead::relay {
namespace {

using std::chrono::seconds;

class DeadlinesTest : public testing::Test {
 protected:
  // What is due until then, in order.
  std::vector<DeadlineKind> run_until(TimePoint time) {
    due.clear();
    while (queue.next_deadline() && *queue.next_deadline() <= time) queue.run(time);
    return due;
  }

  const TimePoint start{std::chrono::hours(1)};
  std::vector<DeadlineKind> due;
  event::TimerQueue queue;
  Deadlines deadlines{queue, [this] { due.push_back(deadlines.take_earliest()); }};
};

using Kinds = std::vector<DeadlineKind>;

TEST_F(DeadlinesTest, AreDueInOrderOfTimeAndOnce) {
  deadlines.set(DeadlineKind::kLiveness, start + seconds(3));
  deadlines.set(DeadlineKind::kLasting, start + seconds(1));
  deadlines.set(DeadlineKind::kHalfClose, start + seconds(2));
  EXPECT_EQ(deadlines.next(), start + seconds(1));
  EXPECT_EQ(run_until(start + seconds(2)),
            (Kinds{DeadlineKind::kLasting, DeadlineKind::kHalfClose}));
  EXPECT_EQ(run_until(start + seconds(9)), Kinds{DeadlineKind::kLiveness});
  EXPECT_FALSE(deadlines.next());
  EXPECT_FALSE(queue.next_deadline());
}

TEST_F(DeadlinesTest, OfOneTimeAreDueInTheOrderOfTheTable) {
  deadlines.set(DeadlineKind::kLasting, start);
  deadlines.set(DeadlineKind::kPermit, start);
  EXPECT_EQ(run_until(start), (Kinds{DeadlineKind::kPermit, DeadlineKind::kLasting}));
}

TEST_F(DeadlinesTest, ASecondOneOfAKindReplacesTheFirst) {
  deadlines.set(DeadlineKind::kSmc, start + seconds(1));
  deadlines.set(DeadlineKind::kSmc, start + seconds(5));
  EXPECT_EQ(run_until(start + seconds(4)), Kinds{});
  deadlines.set(DeadlineKind::kSmc, start + seconds(4));
  EXPECT_EQ(run_until(start + seconds(4)), Kinds{DeadlineKind::kSmc});
}

TEST_F(DeadlinesTest, ACancelledOneLeavesTheOthers) {
  deadlines.set(DeadlineKind::kDial, start + seconds(1));
  deadlines.set(DeadlineKind::kLasting, start + seconds(2));
  deadlines.cancel(DeadlineKind::kDial);
  EXPECT_EQ(queue.next_deadline(), start + seconds(2));
  deadlines.set(DeadlineKind::kLasting, std::nullopt);
  EXPECT_FALSE(queue.next_deadline());
}

TEST_F(DeadlinesTest, ThoseOfAStageEndWithIt) {
  for (const DeadlineRow& row : kDeadlineRows) deadlines.set(row.kind, start);
  deadlines.end_stage();
  Kinds left;
  for (const DeadlineRow& row : kDeadlineRows)
    if (!row.of_stage) left.push_back(row.kind);
  EXPECT_EQ(run_until(start), left);
}

TEST_F(DeadlinesTest, AllEndWithTheConnection) {
  for (const DeadlineRow& row : kDeadlineRows) deadlines.set(row.kind, start);
  deadlines.clear();
  EXPECT_FALSE(deadlines.next());
  EXPECT_FALSE(queue.next_deadline());
}

}  // namespace
}  // namespace fairlead::relay
