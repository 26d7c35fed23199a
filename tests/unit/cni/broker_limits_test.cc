// Limits of the resources that the broker holds for one pod, and shares of pods in what the agent
// has for all of them.
#include "cni/node/broker/broker_shares.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/linux/cpu_time.h"
#include "broker/shared_objects.h"
#include "cni/node/agent/memory_gauge.h"
#include "cni/node/broker/broker_closer.h"
#include "cni/node/broker/broker_unread.h"
#include "cni/node/broker/shared_quota.h"
#include "own_folder.h"

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
    const OwnFolder own;
    for (const auto& [name, text] : row.files) own.write(name, text);
    EXPECT_EQ(MemoryGauge::find(own.path() / "cgroup", own.path() / "membership").kernel_share(),
              row.share)
        << row.name;
  }
}

TEST(SharedQuota, WhatIsPromisedIsReserved) {
  SharedQuota node(100);
  SharedQuota::Share one(node);
  EXPECT_TRUE(one.resize(100));
  EXPECT_FALSE(one.resize(101));
  EXPECT_EQ(one.size(), 100U);
  SharedQuota::Share other(node);
  EXPECT_FALSE(other.resize(1));
  EXPECT_TRUE(one.resize(40));
  EXPECT_TRUE(other.resize(60));
}

TEST(SharedQuota, AShareEndsWithItsOwner) {
  SharedQuota node(10);
  {
    SharedQuota::Share one(node);
    EXPECT_TRUE(one.resize(10));
  }
  SharedQuota::Share next(node);
  EXPECT_TRUE(next.resize(10));
}

// However many take what they can get, the next one gets something.
TEST(SharedQuota, BeyondHalfAPodGetsHalfOfWhatIsLeft) {
  SharedQuota node(1000);
  SharedQuota::Share greedy(node), second(node), third(node), modest(node);
  EXPECT_TRUE(greedy.resize(600));
  EXPECT_FALSE(second.resize(201));
  EXPECT_TRUE(second.resize(200));
  EXPECT_FALSE(third.resize(101));
  EXPECT_TRUE(third.resize(100));
  EXPECT_TRUE(modest.resize(50));
}

TEST(SharedQuota, ASmallerShareIsAlwaysPossible) {
  SharedQuota node(1000);
  SharedQuota::Share one(node), other(node);
  EXPECT_TRUE(one.resize(400));
  EXPECT_TRUE(other.resize(600));
  EXPECT_TRUE(one.resize(399));
}

// The broker's end and the end of a device.
struct Link {
  FileDescriptor broker, device;

  Link() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    broker = FileDescriptor(ends[0]);
    device = FileDescriptor(ends[1]);
  }
  void send(BrokerUnread::Records& pod) const {
    const char record[64] = {};
    ASSERT_EQ(::send(broker.get(), record, sizeof record, 0), 64);
    pod.sent(broker.get());
  }
  void read() const {
    char record[64];
    ASSERT_EQ(::recv(device.get(), record, sizeof record, 0), 64);
  }
};

TEST(BrokerUnread, APodHasSoManyUntilItsDevicesHaveReadAll) {
  BrokerUnread unread;
  BrokerUnread::Records pod(unread), other(unread);
  const std::array<Link, 2> links;
  for (std::size_t i = 0; i < kUnreadPerPodMax; ++i) {
    ASSERT_TRUE(pod.may_send()) << i;
    links[i % 2].send(pod);
  }
  EXPECT_FALSE(pod.may_send());
  EXPECT_TRUE(pod.has_unread(links[0].broker.get()));
  EXPECT_TRUE(other.may_send());
  for (std::size_t i = 0; i < kUnreadPerPodMax / 2 - 1; ++i) links[0].read();
  EXPECT_FALSE(pod.may_send());
  links[0].read();
  EXPECT_TRUE(pod.may_send());
  EXPECT_FALSE(pod.has_unread(links[0].broker.get()));
  EXPECT_EQ(unread.unread(), kUnreadPerPodMax / 2);
}

TEST(BrokerUnread, OnACrowdedNodeAPodReadsBeforeItGetsMore) {
  std::set<int> read;
  BrokerUnread unread([&](int socket) { return read.contains(socket); });
  BrokerUnread::Records pod(unread);
  std::deque<BrokerUnread::Records> hostile;
  int socket = 0;
  for (std::size_t i = 0; i < kUnreadPerNodeMax; ++i) {
    if (i % kUnreadPerPodMax == 0) hostile.emplace_back(unread);
    hostile.back().sent(socket++);
  }
  const int own = socket;
  EXPECT_TRUE(pod.may_send());
  pod.sent(own);
  EXPECT_FALSE(pod.may_send());
  read.insert(own);
  EXPECT_TRUE(pod.may_send());
  pod.sent(own);
  read = {0, 1};  // of another pod
  EXPECT_TRUE(pod.may_send());
  EXPECT_EQ(unread.unread(), kUnreadPerNodeMax - 1);
}

TEST(BrokerUnread, WhatALostDeviceKeepsStillCounts) {
  BrokerUnread unread;
  BrokerUnread::Records pod(unread);
  Link link;
  for (std::size_t i = 0; i < kUnreadPerPodMax; ++i) link.send(pod);
  const int number = link.broker.get();
  pod.end(std::move(link.broker));
  EXPECT_FALSE(pod.may_send());
  link.read();
  char end = 0;
  for (std::size_t i = 1; i < kUnreadPerPodMax; ++i) {
    EXPECT_FALSE(pod.may_send());
    link.read();
  }
  EXPECT_EQ(::recv(link.device.get(), &end, 1, 0), 0);  // it notices the end of the connection
  EXPECT_TRUE(pod.may_send());
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
  EXPECT_EQ(unread.unread(), 0u);
}

TEST(BrokerUnread, ADeviceThatClosesAndAPodThatEndsHaveNothingUnread) {
  BrokerUnread unread;
  std::optional<BrokerUnread::Records> pod(unread);
  Link link, other;
  for (std::size_t i = 0; i < kUnreadPerPodMax; ++i) link.send(*pod);
  pod->end(std::move(link.broker));
  link.device.reset();
  EXPECT_TRUE(pod->may_send());
  other.send(*pod);
  pod->end(std::move(other.broker));
  EXPECT_EQ(unread.unread(), 1u);
  pod.reset();
  EXPECT_EQ(unread.unread(), 0u);
}

constexpr std::size_t kBytes = std::size_t{128} << 20;

std::vector<FileDescriptor> full_memory() {
  std::vector<FileDescriptor> made;
  made.push_back(std::move(broker::make_memory("test", kBytes).value()));
  EXPECT_EQ(::fallocate(made.back().get(), 0, 0, kBytes), 0);
  return made;
}

TEST(BrokerCloser, FreesWhatAPodHasFilledOnAThreadOfItsOwnAndSaysForHowLong) {
  std::vector<FileDescriptor> memory = full_memory();
  Duration begun = thread_cpu_time();
  memory.clear();
  const Duration here = thread_cpu_time() - begun;
  BrokerCloser closer;
  memory = full_memory();
  begun = thread_cpu_time();
  closer.close("pod", std::move(memory));
  EXPECT_LT(thread_cpu_time() - begun, here / 4);
  std::vector<std::pair<std::string, Duration>> spent;
  while (spent.empty()) spent = closer.take_spent();
  ASSERT_EQ(spent.size(), 1u);
  EXPECT_EQ(spent[0].first, "pod");
  EXPECT_GT(spent[0].second, here / 4);
}

}  // namespace
}  // namespace fairlead::cni::node
