#include "event/event_loop.h"

#include <gtest/gtest.h>

#include <thread>

namespace fairlead::event {
namespace {

using std::chrono::milliseconds;

class EventLoopTest : public testing::Test {
 protected:
  // Duration of a wait with a deadline of `delay` from now.
  Duration wait_for(Duration delay) {
    const TimePoint begin = EventLoop::now();
    loop_->wait(begin + delay);
    return EventLoop::now() - begin;
  }

  std::unique_ptr<EventLoop> loop_ = EventLoop::create().value();
};

struct Look : Recheck {
  explicit Look(EventLoop& its_loop) : loop(its_loop) {}
  ~Look() override { loop.forget(*this); }
  void look_again() noexcept override { ++looks; }
  EventLoop& loop;
  int looks = 0;
};

TEST_F(EventLoopTest, WaitEndsAtItsDeadline) {
  EXPECT_GE(wait_for(milliseconds(5)), milliseconds(5));
}

TEST_F(EventLoopTest, WaitForThePastReturnsAtOnce) {
  EXPECT_LT(wait_for(milliseconds(-5)), std::chrono::minutes(1));
}

TEST_F(EventLoopTest, AnEarlierDeadlineMovesTheAlarmForward) {
  loop_->wake();
  EXPECT_LT(wait_for(std::chrono::hours(1)),
            std::chrono::minutes(1));  // ended by wake(); the alarm stays
  EXPECT_LT(wait_for(milliseconds(5)), std::chrono::minutes(1));
}

TEST_F(EventLoopTest, AnAlarmOfAForgottenDeadlineEndsOneWaitOnly) {
  loop_->wake();
  wait_for(milliseconds(5));  // ended by wake(); the alarm stays
  EXPECT_LT(wait_for(std::chrono::hours(1)), std::chrono::minutes(1));
  EXPECT_GE(wait_for(milliseconds(50)), milliseconds(50));
}

TEST_F(EventLoopTest, WakeOfAnotherThreadEndsAWaitWithoutDeadline) {
  std::thread other([this] { loop_->wake(); });
  loop_->wait(std::nullopt);
  other.join();
}

TEST_F(EventLoopTest, ASecondLookComesOnceAfterItsDelay) {
  Look look(*loop_);
  const TimePoint begin = EventLoop::now();
  loop_->schedule_recheck(look);
  loop_->schedule_recheck(look);
  while (look.looks == 0) loop_->wait(std::nullopt);
  EXPECT_GE(EventLoop::now() - begin, kRecheckDelay);
  wait_for(2 * kRecheckDelay);
  EXPECT_EQ(look.looks, 1);
}

TEST_F(EventLoopTest, ASecondLookIsNotTakenAtAnEarlierAlarm) {
  Look look(*loop_);
  wait_for(milliseconds(0));
  loop_->wake();
  wait_for(milliseconds(1));  // leaves an alarm earlier than the look's
  const TimePoint begin = EventLoop::now();
  loop_->schedule_recheck(look);
  while (look.looks == 0) loop_->wait(std::nullopt);
  EXPECT_GE(EventLoop::now() - begin, kRecheckDelay);
}

TEST_F(EventLoopTest, AForgottenSecondLookIsNotTaken) {
  Look look(*loop_);
  loop_->schedule_recheck(look);
  loop_->forget(look);
  wait_for(2 * kRecheckDelay);
  EXPECT_EQ(look.looks, 0);
}

}  // namespace
}  // namespace fairlead::event
