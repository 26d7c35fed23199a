#include "event/timer_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace fairlead::event {
namespace {

constexpr TimePoint at(int ms) { return TimePoint(std::chrono::milliseconds(ms)); }

TEST(TimerQueue, RunsWhatIsDueInOrderOfTime) {
  TimerQueue queue;
  std::string order;
  Timer late(queue, [&] { order += "l"; });
  Timer early(queue, [&] { order += "e"; });
  late.set(at(20));
  early.set(at(10));
  EXPECT_EQ(queue.next_deadline(), at(10));
  queue.run(at(9));
  EXPECT_EQ(order, "");
  queue.run(at(20));
  EXPECT_EQ(order, "el");
  EXPECT_FALSE(queue.next_deadline());
}

TEST(TimerQueue, ATimerThatIsGoneDoesNotRun) {
  TimerQueue queue;
  bool ran = false;
  {
    Timer timer(queue, [&] { ran = true; });
    timer.set(at(1));
  }
  queue.run(at(2));
  EXPECT_FALSE(ran);
}

TEST(TimerQueue, SettingAgainMovesTheDeadline) {
  TimerQueue queue;
  int runs = 0;
  Timer timer(queue, [&] { ++runs; });
  timer.set(at(1));
  timer.set(at(5));
  queue.run(at(2));
  EXPECT_EQ(runs, 0);
  timer.set(std::optional<TimePoint>());
  queue.run(at(9));
  EXPECT_EQ(runs, 0);
}

TEST(TimerQueue, ATimerThatSetsItselfWaitsForTheNextRun) {
  TimerQueue queue;
  int runs = 0;
  Timer* self = nullptr;
  Timer timer(queue, [&] {
    ++runs;
    self->set(at(0));
  });
  self = &timer;
  timer.set(at(1));
  queue.run(at(5));
  EXPECT_EQ(runs, 1);
  queue.run(at(5));
  EXPECT_EQ(runs, 2);
}

TEST(TimerQueue, AHandlerMayDestroyAnotherTimer) {
  TimerQueue queue;
  std::optional<Timer> second;
  Timer first(queue, [&] { second.reset(); });
  second.emplace(queue, [] { FAIL() << "destroyed"; });
  first.set(at(1));
  second->set(at(2));
  queue.run(at(3));
  EXPECT_FALSE(queue.next_deadline());
}

}  // namespace
}  // namespace fairlead::event
