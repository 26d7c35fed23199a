// Limits of the resources that the broker holds for one pod.
#include "cni/node/broker/broker_shares.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

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
    while (count < at_most && shares_.may_give(pod, now)) {
      shares_.given(pod, kChannelKernelBytes, now);
      ++count;
    }
    return count;
  }
  double kernel_share_ = 0;
  BrokerShares shares_{16'384, [this] { return kernel_share_; }};
};

TEST_F(BrokerSharesTest, APodThatDoesNotReadLeavesDescriptorsToOthers) {
  EXPECT_TRUE(shares_.may_wait("deaf", kWaitingPerPodMax));
  shares_.change_waiting("deaf", 0, kWaitingPerPodMax);
  EXPECT_FALSE(shares_.may_wait("deaf", 1));
  EXPECT_TRUE(shares_.may_wait("deaf", 0));
  EXPECT_TRUE(shares_.may_wait("other", 3));
  shares_.change_waiting("deaf", kWaitingPerPodMax, 0);
  EXPECT_TRUE(shares_.may_wait("deaf", 3));
}

TEST_F(BrokerSharesTest, ManyPodsThatDoNotReadLeaveSomeToEachOther) {
  shares_.change_waiting("one", 0, 2000);
  shares_.change_waiting("two", 0, 1200);  // three quarters of a quarter of all
  EXPECT_FALSE(shares_.may_wait("one", 1));
  EXPECT_TRUE(shares_.may_wait("three", kWaitingPerPodWhenScarce));
  EXPECT_FALSE(shares_.may_wait("three", kWaitingPerPodWhenScarce + 1));
  shares_.change_waiting("three", 0, 896);
  EXPECT_FALSE(shares_.may_wait("four", 1));
}

TEST_F(BrokerSharesTest, GrantsOfOnePodLeaveRoomForThoseOfOthers) {
  std::size_t held = 0;
  for (; shares_.may_hold_grant("greedy") && held < kHeldGrantsMax; ++held)
    shares_.grant_held("greedy");
  EXPECT_EQ(held, kHeldGrantsPerPodMax);
  EXPECT_TRUE(shares_.may_hold_grant("other"));
  shares_.grant_let_go("greedy");
  EXPECT_TRUE(shares_.may_hold_grant("greedy"));
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

class MemoryGaugeTest : public testing::Test {
 protected:
  MemoryGaugeTest() {
    std::string path = "/tmp/fairlead-gauge-XXXXXX";
    root_ = ::mkdtemp(path.data());
  }
  ~MemoryGaugeTest() override { std::filesystem::remove_all(root_); }
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  double share() {
    return MemoryGauge::find(root_ / "cgroup", root_ / "membership").kernel_share();
  }
  std::filesystem::path root_;
};

TEST_F(MemoryGaugeTest, ReadsVersion2) {
  write("membership", "0::/pods/agent\n");
  write("cgroup/pods/agent/memory.max", "134217728\n");
  write("cgroup/pods/agent/memory.stat", "anon 5\nslab_reclaimable 7\nslab 67108864\nsock 9\n");
  EXPECT_EQ(share(), 0.5);
}

TEST_F(MemoryGaugeTest, ReadsVersion2WhereItsOwnCgroupIsTheRoot) {
  write("membership", "0::/somewhere/else\n");
  write("cgroup/memory.max", "536870912\n");
  write("cgroup/memory.stat", "slab 134217728\n");
  EXPECT_EQ(share(), 0.25);
}

TEST_F(MemoryGaugeTest, TellsNothingWithoutALimit) {
  write("membership", "0::/\n");
  write("cgroup/memory.max", "max\n");
  write("cgroup/memory.stat", "slab 134217728\n");
  EXPECT_EQ(share(), 0);
}

TEST_F(MemoryGaugeTest, ReadsVersion1) {
  write("membership", "5:devices:/\n4:memory:/agent\n0::/\n");
  write("cgroup/memory/agent/memory.limit_in_bytes", "134217728\n");
  write("cgroup/memory/agent/memory.kmem.usage_in_bytes", "33554432\n");
  EXPECT_EQ(share(), 0.25);
}

TEST_F(MemoryGaugeTest, TellsNothingWhereNothingIsToBeRead) { EXPECT_EQ(share(), 0); }

}  // namespace
}  // namespace fairlead::cni::node
