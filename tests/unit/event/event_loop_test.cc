#include "event/event_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "event/timer_queue.h"

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

// A pipe whose reading end is watched.
class Pipe final : public EventHandler {
 public:
  Pipe(EventLoop& its_loop, std::uint32_t trigger) : loop(its_loop) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
    EXPECT_TRUE(loop.add(read_end.get(), EPOLLIN | trigger, *this));
  }
  ~Pipe() override { loop.forget(*this); }
  void handle_events(std::uint32_t events) noexcept override {
    told |= events;
    ++calls;
    if (and_then) and_then();
  }
  void write() { EXPECT_EQ(::write(write_end.get(), "x", 1), 1); }

  EventLoop& loop;
  FileDescriptor read_end, write_end;
  std::uint32_t told = 0;
  int calls = 0;
  std::function<void()> and_then;
};

TEST_F(EventLoopTest, WaitEndsAtItsDeadlineAndAtOnceIfThatHasPassed) {
  EXPECT_GE(wait_for(milliseconds(5)), milliseconds(5));
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

TEST_F(EventLoopTest, AnEdgeIsToldOnceAndALevelAgain) {
  Pipe edge(*loop_, EPOLLET);
  Pipe level(*loop_, 0);
  edge.write();
  level.write();
  loop_->poll();
  loop_->poll();
  EXPECT_EQ(edge.calls, 1);
  EXPECT_EQ(level.calls, 2);
  EXPECT_EQ(loop_->dispatch_count(), 3U);
}

TEST_F(EventLoopTest, TheEndOfAPipeIsToldApart) {
  Pipe pipe(*loop_, EPOLLET);
  pipe.write_end.reset();
  loop_->poll();
  EXPECT_EQ(pipe.told, static_cast<std::uint32_t>(EPOLLHUP));
}

TEST_F(EventLoopTest, WhatIsReadyIsToldOnceMoreAfterAChange) {
  Pipe pipe(*loop_, EPOLLET);
  pipe.write();
  loop_->poll();
  ASSERT_TRUE(loop_->modify(pipe.read_end.get(), EPOLLIN | EPOLLRDHUP | EPOLLET, pipe));
  loop_->poll();
  EXPECT_EQ(pipe.calls, 2);
}

TEST_F(EventLoopTest, ARemovedDescriptorIsSilent) {
  Pipe pipe(*loop_, 0);
  loop_->remove(pipe.read_end.get(), pipe);
  pipe.write();
  loop_->poll();
  EXPECT_EQ(pipe.calls, 0);
}

// Of two handlers whose events were fetched together, the first destroys the second.
TEST_F(EventLoopTest, AFetchedEventOfADeadHandlerIsNotTold) {
  auto one = std::make_unique<Pipe>(*loop_, EPOLLET);
  auto other = std::make_unique<Pipe>(*loop_, EPOLLET);
  int calls = 0;
  one->and_then = [&] { ++calls, other.reset(); };
  other->and_then = [&] { ++calls, one.reset(); };
  one->write();
  other->write();
  loop_->poll();
  loop_->poll();
  EXPECT_EQ(calls, 1);
}

class ClosingTest : public EventLoopTest {
 protected:
  ClosingTest() {
    for (int i = 0; i < 4; ++i) open_one();
  }
  void open_one() {
    opened_.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    numbers_.push_back(opened_.back().get());
  }
  bool is_open(std::size_t i) const { return ::fcntl(numbers_[i], F_GETFD) >= 0; }
  void finish(std::size_t i) { loop_->close_finished(std::move(opened_[i])); }
  void close(std::size_t i) { loop_->close_later(std::move(opened_[i])); }

  std::vector<FileDescriptor> opened_;
  std::vector<int> numbers_;
};

TEST_F(ClosingTest, DescriptorsAreClosedInTheNextTurnAndNoOthersAreWithThem) {
  open_one();
  open_one();
  for (const std::size_t closed : {4U, 1U, 0U, 5U}) close(closed);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(is_open(i));
  loop_->poll();
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(is_open(i), i == 2 || i == 3) << i;
}

TEST_F(ClosingTest, DescriptorsThatWaitAreClosedWithoutAnotherWaitAndWithTheLoop) {
  close(0);
  loop_->settle();
  EXPECT_FALSE(is_open(0));
  close(1);
  loop_.reset();
  EXPECT_FALSE(is_open(1));
}

#if !defined(FAIRLEAD_THREAD_SANITIZER)
TEST_F(ClosingTest, AFinishedOneWaitsForANeighbour) {
  finish(1);
  close(3);
  loop_->poll();
  EXPECT_TRUE(is_open(1));
  EXPECT_FALSE(is_open(3));
  close(2);
  loop_->poll();
  EXPECT_TRUE(is_open(0));
  EXPECT_FALSE(is_open(1));
  EXPECT_FALSE(is_open(2));
}

TEST_F(ClosingTest, NoMoreFinishedOnesWaitThanTheLimit) {
  while (opened_.size() < 2 * kFinishedMax + 2) open_one();
  for (std::size_t i = 0; i < kFinishedMax; ++i) finish(2 * i);
  close(2 * kFinishedMax);
  loop_->poll();
  EXPECT_FALSE(is_open(0));
  EXPECT_TRUE(is_open(1));
}
#endif

TEST_F(ClosingTest, AFinishedOneIsClosedInTimeWithoutANeighbour) {
  finish(0);
  const TimePoint finished = EventLoop::now();
  while (is_open(0)) loop_->wait(std::nullopt);
  EXPECT_LT(EventLoop::now() - finished, std::chrono::minutes(1));
}

TEST_F(EventLoopTest, AnEventOfAForgottenHandlerIsNotToldToTheNext) {
  auto pipe = std::make_unique<Pipe>(*loop_, EPOLLET);
  const FileDescriptor copy(::dup(pipe->read_end.get()));  // keeps the pipe in epoll
  const FileDescriptor writing(::dup(pipe->write_end.get()));
  pipe.reset();
  Pipe next(*loop_, EPOLLET);
  ASSERT_EQ(::write(writing.get(), "x", 1), 1);
  loop_->poll();
  EXPECT_EQ(next.calls, 0);
}

TEST_F(EventLoopTest, ADescriptorThatCannotBeWatchedIsAnError) {
  Pipe pipe(*loop_, EPOLLET);
  Pipe other(*loop_, EPOLLET);
  loop_->remove(other.read_end.get(), other);
  const Result<void> twice = loop_->add(pipe.read_end.get(), EPOLLIN, other);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().system, EEXIST);
}

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
