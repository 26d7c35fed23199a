#include "base/linux/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "base/line_pace.h"
#include "base/linux/wait.h"

namespace fairlead {
namespace {

using std::chrono::seconds;

class Descriptors : public testing::Test {
 protected:
  Descriptors() { ::getrlimit(RLIMIT_NOFILE, &before_); }
  ~Descriptors() override { ::setrlimit(RLIMIT_NOFILE, &before_); }
  void limit(rlim_t numbers) {
    const rlimit lowered{numbers, before_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
  }
  rlimit before_{};
};

TEST_F(Descriptors, TheLastAreKeptForWhatWasBegun) {
  limit(1024);
  EXPECT_FALSE(descriptors_scarce(1024 - 2 * kDescriptorsKept - 1, DescriptorUse::kNew));
  EXPECT_TRUE(descriptors_scarce(1024 - 2 * kDescriptorsKept, DescriptorUse::kNew));
  EXPECT_FALSE(descriptors_scarce(1024 - kDescriptorsKept - 1, DescriptorUse::kBegun));
  EXPECT_TRUE(descriptors_scarce(1024 - kDescriptorsKept, DescriptorUse::kBegun));
}

TEST_F(Descriptors, ASmallLimitKeepsAnEighth) {
  limit(64);
  EXPECT_FALSE(descriptors_scarce(47, DescriptorUse::kNew));
  EXPECT_TRUE(descriptors_scarce(48, DescriptorUse::kNew));
  EXPECT_TRUE(descriptors_scarce(56, DescriptorUse::kBegun));
}

// Others may change the limit while the proxy runs.
TEST_F(Descriptors, ALowerLimitIsNoticedWithTheNextHigherDescriptor) {
  limit(1024);
  EXPECT_FALSE(descriptors_scarce_lately(20, DescriptorUse::kNew));
  limit(64);
  EXPECT_TRUE(descriptors_scarce_lately(50, DescriptorUse::kNew));
}

TEST_F(Descriptors, WhatHasNoDescriptorIsNotScarce) {
  EXPECT_FALSE(descriptors_scarce(-1, DescriptorUse::kNew));
}

// poll(2) alone fails at once with EINVAL: three entries are more than the limit.
TEST_F(Descriptors, WaitingForFewAtALowLimitWaits) {
  limit(2);
  pollfd waiting[3] = {{-1, POLLIN, 0}, {STDIN_FILENO, 0, 0}, {-1, POLLIN, 0}};
  EXPECT_EQ(wait_for_events(waiting, 0), 0);
  EXPECT_EQ(waiting[0].revents | waiting[1].revents | waiting[2].revents, 0);
}

TEST_F(Descriptors, WaitingThatTheKernelRefusesDoesNotSpin) {
  limit(0);
  pollfd waiting{STDIN_FILENO, POLLIN, 0};
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(wait_for_events({&waiting, 1}, -1), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kWaitRefusedPause);
}

TEST_F(Descriptors, WaitingTellsWhichHasNews) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  pollfd waiting[3] = {{-1, POLLIN, 0}, {ends[0], POLLIN, 0}, {ends[1], POLLOUT, 0}};
  EXPECT_EQ(wait_for_events(waiting, 0), 1);
  EXPECT_EQ(waiting[1].revents, 0);
  EXPECT_EQ(waiting[2].revents, POLLOUT);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(Descriptors, TheLimitIsRaisedToTheHardOne) {
  limit(64);
  raise_descriptor_limit();
  rlimit now{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, before_.rlim_max);
}

// FDSize of /proc/self/status: the capacity of the descriptor table.
long table_size() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "FDSize:" && status >> word) return std::stol(word);
  return 0;
}

TEST_F(Descriptors, RoomIsMadeUpToTheLimit) {
  limit(4096);
  ASSERT_LT(table_size(), 2000);
  make_room_for_descriptors(2000);
  EXPECT_GE(table_size(), 2000);
  make_room_for_descriptors(1'000'000);
  EXPECT_GE(table_size(), 4096);
  EXPECT_LT(table_size(), 1'000'000);
}

TEST(LinePace, LeavesOutWhatComesTooFastAndCountsIt) {
  LinePace pace(2, seconds(1));
  const TimePoint now = TimePoint{} + seconds(100);
  EXPECT_EQ(pace.admit(now), 0U);
  EXPECT_EQ(pace.admit(now), 0U);
  EXPECT_EQ(pace.admit(now), std::nullopt);
  EXPECT_EQ(pace.admit(now), std::nullopt);
  EXPECT_EQ(pace.admit(now + seconds(1)), 2U);
  EXPECT_EQ(pace.admit(now + seconds(1)), 0U);
}

}  // namespace
}  // namespace fairlead
