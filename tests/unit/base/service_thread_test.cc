// A thread that waits: for descriptors, for a time, and for its end.
#include "base/linux/service_thread.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>

#include "descriptor_limit.h"

namespace fairlead {
namespace {

TimePoint now() { return std::chrono::steady_clock::now(); }

TEST(ServiceThreadTest, EndsItsWaitWhenItIsStopped) {
  std::atomic<bool> ended{false};
  ServiceThread thread;
  ASSERT_TRUE(thread.start([&] {
    while (thread.wait({})) {
    }
    EXPECT_TRUE(thread.is_stopping());
    ended = true;
  }));
  thread.stop();
  EXPECT_TRUE(ended);
  thread.stop();
}

TEST(ServiceThreadTest, IsStoppedByItsEndAndCanBeStartedAgain) {
  int ended = 0;
  {
    ServiceThread never_started;
    ServiceThread thread;
    for (int i = 0; i < 2; ++i) {
      thread.stop();
      ASSERT_TRUE(thread.start([&] {
        while (thread.wait_until(TimePoint::max())) {
        }
        ++ended;
      }));
    }
  }
  EXPECT_EQ(ended, 2);
}

TEST(ServiceThreadTest, WaitsForDescriptors) {
  const EventDescriptor silent = EventDescriptor::create().value();
  const EventDescriptor speaks = EventDescriptor::create().value();
  std::promise<std::array<short, 3>> seen;
  ServiceThread thread;
  ASSERT_TRUE(thread.start([&] {
    std::array<pollfd, 3> waiting = {pollfd{silent.get(), POLLIN, 0}, pollfd{-1, POLLIN, 0},
                                     pollfd{speaks.get(), POLLIN, 0}};
    EXPECT_TRUE(thread.wait(waiting));
    seen.set_value({waiting[0].revents, waiting[1].revents, waiting[2].revents});
  }));
  speaks.signal();
  EXPECT_EQ(seen.get_future().get(), (std::array<short, 3>{0, 0, POLLIN}));
}

TEST(ServiceThreadTest, WaitsUntilATimeThatMayHavePassed) {
  ServiceThread thread;
  const TimePoint until = now() + std::chrono::milliseconds(20);
  std::promise<TimePoint> over;
  ASSERT_TRUE(thread.start([&] {
    EXPECT_TRUE(thread.wait_until(TimePoint::min()));
    EXPECT_TRUE(thread.wait_until(until));
    over.set_value(now());
  }));
  EXPECT_GE(over.get_future().get(), until);
}

TEST(ServiceThreadTest, EachWakingEndsAWait) {
  ServiceThread thread;
  std::promise<void> first, second;
  ASSERT_TRUE(thread.start([&] {
    EXPECT_TRUE(thread.wait({}));
    first.set_value();
    EXPECT_TRUE(thread.wait({}));
    second.set_value();
  }));
  thread.wake();
  first.get_future().wait();
  thread.wake();
  second.get_future().wait();
}

TEST(ServiceThreadTest, IsNotStartedWithoutADescriptor) {
  ServiceThread thread;
  const rdma::shm::DescriptorLimit none(0);
  EXPECT_EQ(thread.start([] { FAIL(); }).error().code, Errc::kExhausted);
}

}  // namespace
}  // namespace fairlead
