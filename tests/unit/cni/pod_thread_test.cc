// Threads of the agent for single pods: what a pod does to one reaches no other.
#include "cni/node/pods/pod_thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "cni/node/pods/pod_calls.h"
#include "lingering_socket.h"

namespace fairlead::cni::node {
namespace {

using Clock = std::chrono::steady_clock;

std::size_t descriptors_here() {
  DIR* const folder = ::opendir("/proc/thread-self/fd");
  std::size_t count = 0;
  while (::readdir(folder) != nullptr) ++count;
  (void)::closedir(folder);
  return count - 3;  // ".", "..", and the folder
}

class PodThreadTest : public testing::Test {
 protected:
  // Runs it to its end.
  static void run(PodThread::Work work) {
    std::promise<void> done;
    auto thread = PodThread::start([&](PodThread::Here& here) {
      work(here);
      done.set_value();
    });
    ASSERT_TRUE(thread);
    done.get_future().wait();
    while (!(*thread)->ended()) std::this_thread::yield();
  }
};

TEST_F(PodThreadTest, HasATableOfItsOwn) {
  const FileDescriptor ours(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::size_t before = descriptors_here();
  std::size_t at_first = 0;
  run([&](PodThread::Here&) {
    at_first = descriptors_here();
    for (int i = 0; i < 100; ++i) (void)::open("/dev/null", O_RDONLY | O_CLOEXEC);
  });
  EXPECT_LE(at_first, 4U);  // the standard streams, and one to be stopped by
  EXPECT_EQ(descriptors_here(), before);
  EXPECT_GE(::fcntl(ours.get(), F_GETFD), 0);
}

TEST_F(PodThreadTest, EndsAtOnceWithSocketsThatLinger) {
  const auto begun = Clock::now();
  run([&](PodThread::Here&) {
    LingeringSockets sockets;
    for (int i = 0; i < 3; ++i) (void)sockets.make().release();
  });
  EXPECT_LT(Clock::now() - begun, LingeringSockets::kLinger / 4);
}

TEST_F(PodThreadTest, IsWokenOutOfACloseThatLingers) {
  const auto begun = Clock::now();
  std::promise<void> closing;
  auto thread = PodThread::start([&](PodThread::Here&) {
    LingeringSockets sockets;
    FileDescriptor lingering = sockets.make();
    closing.set_value();
    lingering.reset();
  });
  ASSERT_TRUE(thread);
  closing.get_future().wait();
  (*thread)->stop();
  while (!(*thread)->ended()) (*thread)->kick();
  EXPECT_LT(Clock::now() - begun, LingeringSockets::kLinger / 4);
}

TEST_F(PodThreadTest, StopEndsAWait) {
  std::atomic<bool> waited{true};
  auto thread =
      PodThread::start([&](PodThread::Here& here) { waited = here.wait({}, TimePoint::max()); });
  ASSERT_TRUE(thread);
  (*thread)->stop();
  while (!(*thread)->ended()) std::this_thread::yield();
  EXPECT_FALSE(waited);
}

TEST_F(PodThreadTest, IsLeftToItselfWhileItIsBlocked) {
  struct Left {
    std::atomic<bool> may_end{false}, ended{false};
  };
  auto* const left = new Left;
  {
    auto thread = PodThread::start([left](PodThread::Here&) {
      while (!left->may_end) std::this_thread::yield();
      left->ended = true;
    });
    ASSERT_TRUE(thread);
  }
  left->may_end = true;
  while (!left->ended) std::this_thread::yield();
  delete left;
}

TEST(TimeBudgetTest, RestsWhenMoreIsSpentThanThereIsAndSavesNoMoreThanItHadAtFirst) {
  const TimePoint begin{};
  TimeBudget budget(begin);
  budget.spend(kPodTimeAtOnce);
  EXPECT_EQ(budget.rest(begin), Duration::zero());
  budget.spend(std::chrono::milliseconds(5));
  const Duration rest = budget.rest(begin);
  EXPECT_EQ(rest, std::chrono::milliseconds(100));
  EXPECT_EQ(budget.rest(begin + rest), Duration::zero());
  TimeBudget saved(begin);
  EXPECT_EQ(saved.rest(begin + std::chrono::hours(1)), Duration::zero());
  saved.spend(kPodTimeAtOnce + std::chrono::milliseconds(1));
  EXPECT_GT(saved.rest(begin + std::chrono::hours(1)), Duration::zero());
}

class PodCallsTest : public PodThreadTest {
 protected:
  PodCallsTest() { may_end = false; }
  static int block() {
    while (!may_end) std::this_thread::yield();
    return 1;
  }
  inline static std::atomic<bool> may_end;
};

TEST_F(PodCallsTest, GivesWhatTheCallReturns) {
  PodCalls calls;
  EXPECT_EQ(calls.ask("pod", std::chrono::seconds(20), [] { return 7; }), 7);
}

// However many pods draw their calls out, the owner soon waits no longer for each.
TEST_F(PodCallsTest, AnOwnerThatHasWaitedEnoughHurries) {
  PodCalls calls(std::chrono::milliseconds(20));
  const auto begun = Clock::now();
  for (const char* const pod : {"first", "second", "third"})
    EXPECT_FALSE(calls.ask(pod, std::chrono::minutes(1), block));
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(30));
  EXPECT_EQ(calls.ask("honest", std::chrono::minutes(1), [] { return 2; }), 2);
  may_end = true;
}

TEST_F(PodCallsTest, ACallThatBlocksIsLeftBehindAndHoldsUpNoOtherPod) {
  PodCalls calls;
  EXPECT_FALSE(calls.ask("hostile", std::chrono::milliseconds(10), block));
  EXPECT_FALSE(calls.ask("hostile", std::chrono::seconds(20), [] { return 2; }));
  EXPECT_EQ(calls.ask("honest", std::chrono::seconds(20), [] { return 3; }), 3);
  may_end = true;
  while (calls.ask("hostile", std::chrono::seconds(20), [] { return 4; }) != 4)
    std::this_thread::yield();
}

}  // namespace
}  // namespace fairlead::cni::node
