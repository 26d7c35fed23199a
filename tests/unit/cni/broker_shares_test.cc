// Limits of the resources that the broker holds for one pod.
#include "cni/node/broker/broker_shares.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "cni/node/agent/memory_gauge.h"

namespace fairlead::cni::node {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{seconds(1000)};

class BrokerSharesTest : public testing::Test {
 protected:
  // Takes channels until the pod gets no more; returns their number.
  int take_channels(const std::string& pod, TimePoint now, int at_most) {
    int count = 0;
    while (count < at_most && share(pod).may_give(now)) {
      share(pod).given(kChannelKernelBytes, now);
      ++count;
    }
    return count;
  }
  BrokerShares::Share& share(const std::string& pod) {
    return pods_.try_emplace(pod, shares_).first->second;
  }
  double kernel_share_ = 0;
  BrokerShares shares_{16'384, [this] { return kernel_share_; }};
  std::map<std::string, BrokerShares::Share> pods_;
};

TEST_F(BrokerSharesTest, APodThatDoesNotReadLeavesDescriptorsToOthers) {
  EXPECT_TRUE(share("deaf").may_wait(kWaitingPerPodMax));
  share("deaf").add_waiting(kWaitingPerPodMax);
  EXPECT_FALSE(share("deaf").may_wait(1));
  EXPECT_TRUE(share("deaf").may_wait(0));
  EXPECT_TRUE(share("other").may_wait(3));
  share("deaf").remove_waiting(kWaitingPerPodMax);
  EXPECT_TRUE(share("deaf").may_wait(3));
}

TEST_F(BrokerSharesTest, ManyPodsThatDoNotReadLeaveSomeToEachOther) {
  share("one").add_waiting(2000);
  share("two").add_waiting(1200);  // three quarters of a quarter of all
  EXPECT_FALSE(share("one").may_wait(1));
  EXPECT_TRUE(share("three").may_wait(kWaitingPerPodWhenScarce));
  EXPECT_FALSE(share("three").may_wait(kWaitingPerPodWhenScarce + 1));
  share("three").add_waiting(896);
  EXPECT_FALSE(share("four").may_wait(1));
}

TEST_F(BrokerSharesTest, GrantsOfOnePodLeaveRoomForThoseOfOthers) {
  std::size_t held = 0;
  for (; share("greedy").may_hold_grant() && held < kHeldGrantsMax; ++held)
    share("greedy").grant_held();
  EXPECT_EQ(held, kHeldGrantsPerPodMax);
  EXPECT_TRUE(share("other").may_hold_grant());
  share("greedy").grant_let_go();
  EXPECT_TRUE(share("greedy").may_hold_grant());
}

TEST_F(BrokerSharesTest, BuffersOfOnePodLeaveRoomForThoseOfOthers) {
  const auto take = [&](const std::string& pod) {
    std::size_t count = 0;
    for (; share(pod).may_have_buffer() && count < kBuffersPerNodeMax; ++count)
      share(pod).buffer_made();
    return count;
  };
  EXPECT_EQ(take("one"), kBuffersPerPodMax);
  EXPECT_EQ(take("two"), 2048u);  // three quarters of half of all descriptors are in use
  EXPECT_EQ(take("three"), kBuffersPerPodWhenScarce);
  share("one").buffers_gone(kBuffersPerPodMax);
  EXPECT_TRUE(share("two").may_have_buffer());
  EXPECT_EQ(shares_.buffers(), 2048 + kBuffersPerPodWhenScarce);
}

TEST_F(BrokerSharesTest, WhatAPodHadIsFreeWhenItEnds) {
  share("one").add_waiting(3);
  share("one").buffer_made();
  for (std::size_t i = 0; i < kHeldGrantsMax; ++i)
    share("pod" + std::to_string(i % 16)).grant_held();
  EXPECT_FALSE(share("other").may_hold_grant());
  pods_.clear();
  EXPECT_EQ(shares_.buffers(), 0u);
  EXPECT_TRUE(share("other").may_hold_grant());
}

TEST_F(BrokerSharesTest, WhileMemoryIsLeftNobodyIsCounted) {
  EXPECT_EQ(take_channels("greedy", kStart, 100'000), 100'000);
}

TEST_F(BrokerSharesTest, WhenMemoryIsShortThePodThatWasGivenMostGetsNoMore) {
  (void)take_channels("greedy", kStart, 5'000);
  kernel_share_ = kStrainedShare;
  const TimePoint later = kStart + kMemoryLookInterval;
  EXPECT_EQ(take_channels("greedy", later, 1), 0);
  EXPECT_EQ(take_channels("modest", later, 100), 100);
  // In this state, nothing is forgotten.
  EXPECT_EQ(take_channels("greedy", later + hours(100), 1), 0);
  kernel_share_ = kFullShare;
  EXPECT_EQ(take_channels("modest", later + hours(101), 1), 0);
}

TEST_F(BrokerSharesTest, WhatAPodWasGivenIsForgottenInTime) {
  (void)take_channels("busy", kStart, 1'000);
  const TimePoint later = kStart + hours(1);
  EXPECT_EQ(take_channels("busy", later, 1), 1);
  kernel_share_ = kStrainedShare;
  EXPECT_GT(take_channels("busy", later + kMemoryLookInterval, 10), 0);
}

TEST(MemoryGauge, ReadsTheShareOfTheKernelInEitherVersion) {
  const struct {
    const char* name;
    std::map<std::string, std::string> files;
    double share;
  } kTable[] = {
      {"version 2",
       {{"membership", "0::/pods/agent\n"},
        {"cgroup/pods/agent/memory.max", "134217728\n"},
        {"cgroup/pods/agent/memory.stat", "anon 5\nslab_reclaimable 7\nslab 67108864\nsock 9\n"}},
       0.5},
      {"version 2, its own cgroup is the root",
       {{"membership", "0::/somewhere/else\n"},
        {"cgroup/memory.max", "536870912\n"},
        {"cgroup/memory.stat", "slab 134217728\n"}},
       0.25},
      {"without a limit",
       {{"membership", "0::/\n"},
        {"cgroup/memory.max", "max\n"},
        {"cgroup/memory.stat", "slab 134217728\n"}},
       0},
      {"version 1",
       {{"membership", "5:devices:/\n4:memory:/agent\n0::/\n"},
        {"cgroup/memory/agent/memory.limit_in_bytes", "134217728\n"},
        {"cgroup/memory/agent/memory.kmem.usage_in_bytes", "33554432\n"}},
       0.25},
      {"nothing to read", {}, 0}};
  for (const auto& row : kTable) {
    std::string folder = "/tmp/fairlead-gauge-XXXXXX";
    const std::filesystem::path root = ::mkdtemp(folder.data());
    for (const auto& [name, text] : row.files) {
      std::filesystem::create_directories((root / name).parent_path());
      std::ofstream(root / name) << text;
    }
    EXPECT_EQ(MemoryGauge::find(root / "cgroup", root / "membership").kernel_share(), row.share)
        << row.name;
    std::filesystem::remove_all(root);
  }
}

}  // namespace
}  // namespace fairlead::cni::node
