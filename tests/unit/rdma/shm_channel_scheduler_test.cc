// Which channels a device looks at, and in which order.
#include "rdma/shm/channel/shm_channel_scheduler.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "rdma/shm/shm_limits.h"
#include "unit/rdma/shm_channel_pair.h"

namespace fairlead::rdma::shm {
namespace {

using Channels = std::vector<const Channel*>;

class ShmChannelScheduler : public ShmChannelPair {
 protected:
  // Those that a round looks at, in its order.
  Channels round() {
    const auto round = scheduler_.begin_round();
    Channels channels;
    for (std::size_t i = 0; i < round.count; ++i) channels.push_back(&scheduler_.channel(round, i));
    return channels;
  }
  Channels bells() {
    Channels channels;
    scheduler_.check_bells([&](Channel& channel) {
      channels.push_back(&channel);
      return false;
    });
    return channels;
  }
  // The channel waits for `queue_pair`, of which only the address is looked at.
  void stall(Channel& channel, const int& queue_pair) {
    channel.stall_on(as_queue_pair(queue_pair));
    scheduler_.stall(channel);
  }
  // Channels that wait for it go on; returns how many were asked.
  int resume(const int& queue_pair) {
    int asked = 0;
    scheduler_.resume([&](const ShmQueuePair& stalled_on) {
      ++asked;
      return &stalled_on == as_queue_pair(queue_pair);
    });
    return asked;
  }
  static const ShmQueuePair* as_queue_pair(const int& queue_pair) {
    return reinterpret_cast<const ShmQueuePair*>(&queue_pair);
  }

  ChannelScheduler scheduler_;
};

TEST_F(ShmChannelScheduler, LooksAtAnActiveChannelOnce) {
  EXPECT_EQ(round(), Channels{});
  EXPECT_FALSE(scheduler_.has_work());
  scheduler_.activate(*left_);
  scheduler_.activate(*left_);
  EXPECT_TRUE(left_->schedule().active);
  EXPECT_EQ(round(), Channels{left_.get()});
}

// Its peer need not ring: it will be looked at anyway.
TEST_F(ShmChannelScheduler, AnActiveChannelIsAwake) {
  left_->fall_asleep(false);
  scheduler_.activate(*left_);
  EXPECT_EQ(wish_of(Channel::Side::kDialler), 0u);
  EXPECT_FALSE(left_->was_rung());
}

TEST_F(ShmChannelScheduler, LooksAtNoDeadChannel) {
  left_->terminate();
  scheduler_.activate(*left_);
  scheduler_.list_bell(*left_);
  EXPECT_FALSE(left_->schedule().active);
  EXPECT_FALSE(left_->schedule().bell_listed);
  EXPECT_EQ(round(), Channels{});
  EXPECT_EQ(bells(), Channels{});
}

TEST_F(ShmChannelScheduler, EachRoundBeginsWithTheNextChannel) {
  const auto third = make();
  Channel* const all[] = {left_.get(), right_.get(), third.get()};
  for (Channel* channel : all) scheduler_.activate(*channel);
  EXPECT_EQ(round(), (Channels{all[0], all[1], all[2]}));
  EXPECT_EQ(round(), (Channels{all[1], all[2], all[0]}));
  EXPECT_EQ(round(), (Channels{all[2], all[0], all[1]}));
  EXPECT_EQ(round(), (Channels{all[0], all[1], all[2]}));
}

TEST_F(ShmChannelScheduler, ARoundThatEndedEarlyGoesOnBehindItsLastChannel) {
  std::array<std::unique_ptr<Channel>, 5> all;
  for (auto& channel : all) {
    channel = make();
    scheduler_.activate(*channel);
  }
  (void)scheduler_.begin_round();
  const auto second = scheduler_.begin_round();
  ASSERT_EQ(&scheduler_.channel(second, 2), all[3].get());
  scheduler_.continue_behind(second, 2);
  EXPECT_EQ(round().front(), all[4].get());
}

TEST_F(ShmChannelScheduler, ARoundLeavesOutWhatBecameActiveSinceItBegan) {
  scheduler_.activate(*left_);
  const auto round = scheduler_.begin_round();
  scheduler_.activate(*right_);
  EXPECT_EQ(round.count, 1u);
  EXPECT_EQ(&scheduler_.channel(round, 0), left_.get());
}

TEST_F(ShmChannelScheduler, OneChannelWithWorkIsEnough) {
  scheduler_.activate(*left_);
  scheduler_.activate(*right_);
  EXPECT_FALSE(scheduler_.has_work());
  post();
  left_->ring_if_due();
  EXPECT_TRUE(scheduler_.has_work());
  EXPECT_EQ(receive(), 1u);
  EXPECT_FALSE(scheduler_.has_work());
}

TEST_F(ShmChannelScheduler, OnlyThoseWithoutWorkFallAsleep) {
  scheduler_.activate(*left_);
  scheduler_.activate(*right_);
  post();
  left_->ring_if_due();
  EXPECT_FALSE(scheduler_.fall_asleep(false));
  EXPECT_FALSE(left_->schedule().active);
  EXPECT_EQ(wish_of(Channel::Side::kDialler), kWakeOnMessage);
  EXPECT_TRUE(right_->schedule().active);
  EXPECT_EQ(wish_of(Channel::Side::kAcceptor), 0u);
  EXPECT_EQ(round(), Channels{right_.get()});
  EXPECT_EQ(receive(), 1u);
  EXPECT_TRUE(scheduler_.fall_asleep(true));
  EXPECT_EQ(wish_of(Channel::Side::kAcceptor), kWakeOnMessage | kWakeOnProgress);
  EXPECT_EQ(round(), Channels{});
}

TEST_F(ShmChannelScheduler, WhoHasSleptIsLookedAtAgainOnceAwake) {
  scheduler_.activate(*left_);
  ASSERT_TRUE(scheduler_.fall_asleep(false));
  scheduler_.wake_up();
  EXPECT_TRUE(left_->schedule().active);
  EXPECT_EQ(wish_of(Channel::Side::kDialler), 0u);
  EXPECT_EQ(round(), Channels{left_.get()});
}

TEST_F(ShmChannelScheduler, WhoWasActivatedMeanwhileIsLookedAtOnce) {
  scheduler_.activate(*left_);
  ASSERT_TRUE(scheduler_.fall_asleep(false));
  scheduler_.activate(*left_);
  scheduler_.wake_up();
  EXPECT_EQ(round(), Channels{left_.get()});
}

// Which channels are looked at without a bell is decided by their recent traffic. What an earlier
// sleep has left asleep is no part of it.
TEST_F(ShmChannelScheduler, WakingLooksAtThoseThatTheLastSleepHasPutToSleep) {
  scheduler_.activate(*left_);
  EXPECT_TRUE(scheduler_.fall_asleep(false));
  scheduler_.activate(*right_);
  EXPECT_TRUE(scheduler_.fall_asleep(false));
  scheduler_.wake_up();
  EXPECT_EQ(round(), Channels{right_.get()});
  EXPECT_FALSE(left_->schedule().active);
}

TEST_F(ShmChannelScheduler, AfterManySleepsWithoutTrafficAChannelIsLeftAsleep) {
  scheduler_.activate(*left_);
  for (unsigned sleeps = 1; sleeps < kIdleArmsMax; ++sleeps) {
    ASSERT_TRUE(scheduler_.fall_asleep(false));
    scheduler_.wake_up();
    ASSERT_TRUE(left_->schedule().active) << sleeps;
  }
  ASSERT_TRUE(scheduler_.fall_asleep(false));
  scheduler_.wake_up();
  EXPECT_FALSE(left_->schedule().active);
  EXPECT_EQ(wish_of(Channel::Side::kDialler), kWakeOnMessage);
  EXPECT_EQ(round(), Channels{});
}

TEST_F(ShmChannelScheduler, TrafficBeginsTheCountOfSleepsAnew) {
  scheduler_.activate(*left_);
  for (unsigned sleeps = 1; sleeps < kIdleArmsMax; ++sleeps) {
    ASSERT_TRUE(scheduler_.fall_asleep(false));
    scheduler_.wake_up();
  }
  scheduler_.activate(*left_);
  ASSERT_TRUE(scheduler_.fall_asleep(false));
  scheduler_.wake_up();
  EXPECT_TRUE(left_->schedule().active);
}

TEST_F(ShmChannelScheduler, ABellIsListedUntilItNeedsNoFurtherLook) {
  scheduler_.list_bell(*left_);
  scheduler_.list_bell(*right_);
  scheduler_.list_bell(*left_);
  EXPECT_EQ(bells(), (Channels{left_.get(), right_.get()}));
  EXPECT_TRUE(left_->schedule().bell_listed);
  scheduler_.check_bells([&](Channel& channel) { return &channel == left_.get(); });
  EXPECT_EQ(bells(), Channels{right_.get()});
  EXPECT_FALSE(left_->schedule().bell_listed);
  EXPECT_TRUE(right_->schedule().bell_listed);
  scheduler_.list_bell(*left_);
  EXPECT_EQ(bells(), (Channels{right_.get(), left_.get()}));
  EXPECT_EQ(round(), Channels{});
}

TEST_F(ShmChannelScheduler, WhoPostedIsLookedAtAndItsBellToo) {
  scheduler_.note_posted(*left_);
  EXPECT_EQ(round(), Channels{left_.get()});
  EXPECT_EQ(bells(), Channels{left_.get()});
}

TEST_F(ShmChannelScheduler, WhoWaitsForAQueuePairGoesOnWithIt) {
  const int one = 0, other = 0;
  stall(*left_, one);
  stall(*right_, other);
  EXPECT_EQ(resume(one), 2);
  EXPECT_EQ(left_->stalled_on(), nullptr);
  EXPECT_EQ(right_->stalled_on(), as_queue_pair(other));
  EXPECT_EQ(round(), Channels{left_.get()});
  EXPECT_EQ(resume(other), 1);  // the first does not wait any more
  EXPECT_EQ(right_->stalled_on(), nullptr);
  EXPECT_EQ(resume(other), 0);
}

TEST_F(ShmChannelScheduler, ForgetsTheDeadEverywhere) {
  const int queue_pair = 0;
  for (Channel* channel : {left_.get(), right_.get()}) {
    scheduler_.note_posted(*channel);
    stall(*channel, queue_pair);
  }
  left_->terminate();
  scheduler_.forget_dead();
  EXPECT_EQ(round(), Channels{right_.get()});
  EXPECT_EQ(bells(), Channels{right_.get()});
  EXPECT_EQ(resume(queue_pair), 1);
}

TEST_F(ShmChannelScheduler, WhoDiesAsleepIsNotWoken) {
  scheduler_.activate(*left_);
  scheduler_.activate(*right_);
  ASSERT_TRUE(scheduler_.fall_asleep(false));
  left_->terminate();
  scheduler_.forget_dead();
  scheduler_.wake_up();
  EXPECT_EQ(round(), Channels{right_.get()});
}

}  // namespace
}  // namespace fairlead::rdma::shm
