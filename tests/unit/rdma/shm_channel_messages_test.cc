// What the two sides of a channel tell each other beside messages, from before its memory has come
// until its end.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <vector>

#include "rdma/shm/shm_limits.h"
#include "unit/rdma/shm_channel_pair.h"

namespace fairlead::rdma::shm {
namespace {

using Numbers = std::vector<std::uint32_t>;

// A message that can be told from others.
ControlMessage numbered(std::uint32_t number) { return {.source = QpNumber(number)}; }

class ShmChannelMessages : public ShmChannelPair {
 protected:
  // All that has come at a side, which makes room for more.
  static Numbers take_all(Channel& channel) {
    Numbers taken;
    while (auto message = channel.control_in().front()) {
      taken.push_back(message->source.value);
      channel.control_in().pop();
    }
    return taken;
  }
  static Numbers range(std::uint32_t from, std::uint32_t to) {
    Numbers numbers;
    for (; from < to; ++from) numbers.push_back(from);
    return numbers;
  }
  void fill() {
    for (std::uint32_t i = 0; i < kControlSlots; ++i) left_->send(numbered(i));
    ASSERT_TRUE(left_->control_flushed());
  }
  // What left_ fills.
  ControlRingMemory& control_ring() { return shared().controls[0]; }
};

TEST_F(ShmChannelMessages, BothSidesHearEachOther) {
  left_->send(numbered(1));
  EXPECT_TRUE(right_->control_waiting());
  EXPECT_FALSE(left_->control_waiting());
  right_->send(numbered(2));
  EXPECT_EQ(take_all(*left_), Numbers{2});
  EXPECT_EQ(take_all(*right_), Numbers{1});
  EXPECT_FALSE(right_->control_waiting());
}

TEST_F(ShmChannelMessages, WhatIsSaidBeforeTheMemoryComesIsHeardThen) {
  const auto asking = make(), asked = make();
  EXPECT_TRUE(asking->awaits_memory());
  EXPECT_FALSE(asking->attached());
  asking->send(numbered(1));
  EXPECT_TRUE(asking->answer(numbered(2)));
  EXPECT_FALSE(asking->control_flushed());
  auto ends = std::move(broker::make_channel(sizeof(ChannelMemory)).value());
  ASSERT_TRUE(asking->attach(Channel::Side::kDialler, std::move(ends[0])));
  ASSERT_TRUE(asked->attach(Channel::Side::kAcceptor, std::move(ends[1])));
  EXPECT_TRUE(asking->attached());
  EXPECT_FALSE(asking->awaits_memory());
  EXPECT_TRUE(asking->control_flushed());
  EXPECT_EQ(take_all(*asked), (Numbers{1, 2}));
}

TEST_F(ShmChannelMessages, MemoryThatIsRefusedChangesNothing) {
  const auto asking = make();
  asking->send(numbered(1));
  auto ends = std::move(broker::make_channel(sizeof(ChannelMemory)).value());
  auto small = std::move(broker::make_channel(sizeof(ChannelMemory) - 1).value());
  EXPECT_EQ(asking->attach(Channel::Side::kDialler, std::move(small[0])).error().code,
            Errc::kMalformed);
  broker::ChannelEnd without_bell;
  without_bell.memory = FileDescriptor(::fcntl(ends[0].memory.get(), F_DUPFD_CLOEXEC, 0));
  EXPECT_EQ(asking->attach(Channel::Side::kDialler, std::move(without_bell)).error().code,
            Errc::kMalformed);
  EXPECT_TRUE(asking->awaits_memory());
  EXPECT_FALSE(asking->control_flushed());
  ASSERT_TRUE(asking->attach(Channel::Side::kDialler, std::move(ends[0])));
  EXPECT_TRUE(asking->control_flushed());
}

TEST_F(ShmChannelMessages, KeepsTheBellsAndNotTheDescriptorOfItsMemory) {
  const auto asking = make();
  auto ends = std::move(broker::make_channel(sizeof(ChannelMemory)).value());
  const auto [memory, ring, watch] = ends[0].descriptors();
  ASSERT_TRUE(asking->attach(Channel::Side::kDialler, std::move(ends[0])));
  EXPECT_EQ(asking->bell(), watch);
  EXPECT_EQ(::fcntl(memory, F_GETFD), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_NE(::fcntl(ring, F_GETFD), -1);
  asking->terminate();
  EXPECT_EQ(asking->bell(), -1);
  EXPECT_EQ(::fcntl(ring, F_GETFD), -1);
  EXPECT_EQ(::fcntl(watch, F_GETFD), -1);
}

TEST_F(ShmChannelMessages, RemembersThePodOfItsPeer) {
  left_->set_pod(7);
  EXPECT_EQ(left_->pod(), 7u);
  EXPECT_EQ(right_->pod(), 0u);
}

// Nothing overtakes what waits.
TEST_F(ShmChannelMessages, WhatTheRingDoesNotTakeFollowsInOrder) {
  fill();
  left_->send(numbered(kControlSlots));
  EXPECT_TRUE(left_->answer(numbered(kControlSlots + 1)));
  EXPECT_EQ(take_all(*right_), range(0, kControlSlots));
  left_->send(numbered(kControlSlots + 2));
  EXPECT_TRUE(left_->answer(numbered(kControlSlots + 3)));
  EXPECT_FALSE(right_->control_waiting());
  left_->flush_control();
  EXPECT_TRUE(left_->control_flushed());
  EXPECT_EQ(take_all(*right_), range(kControlSlots, kControlSlots + 4));
}

TEST_F(ShmChannelMessages, RoomIsFoundByWhoFallsAsleep) {
  fill();
  left_->send(numbered(kControlSlots));
  left_->ring_if_due();
  EXPECT_EQ(take_all(*right_).size(), kControlSlots);
  left_->fall_asleep(false);
  EXPECT_TRUE(left_->control_flushed());
  EXPECT_EQ(take_all(*right_), Numbers{kControlSlots});
  EXPECT_TRUE(left_->has_work(true));  // the peer has not been rung for it
}

TEST_F(ShmChannelMessages, OnlySoManyMessagesWait) {
  const auto asking = make();
  for (std::uint32_t i = 0; i < kControlQueueMax; ++i) asking->send(numbered(i));
  EXPECT_EQ(asking->state(), Channel::State::kOpen);
  asking->send(numbered(0));
  EXPECT_EQ(asking->state(), Channel::State::kClosing);
  EXPECT_FALSE(asking->awaits_memory());
}

TEST_F(ShmChannelMessages, AnAnswerIsNoMoreThanAnyMessageThatWaits) {
  const auto asking = make();
  for (std::uint32_t i = 1; i < kControlQueueMax; ++i) asking->send(numbered(i));
  EXPECT_TRUE(asking->answer(numbered(kControlQueueMax)));
  EXPECT_FALSE(asking->answer(numbered(kControlQueueMax + 1)));
  EXPECT_EQ(asking->state(), Channel::State::kClosing);
}

TEST_F(ShmChannelMessages, MoreAnswersWaitWhereQueuePairsUseTheChannel) {
  for (const std::uint32_t users : {0U, 3U}) {
    const auto asking = make();
    for (std::uint32_t i = 0; i < users; ++i) asking->add_user();
    for (std::uint32_t i = 0; i < kAnswersWaitingMax + users; ++i)
      ASSERT_TRUE(asking->answer(numbered(i))) << i;
    EXPECT_EQ(asking->state(), Channel::State::kOpen);
    EXPECT_FALSE(asking->answer(numbered(kAnswersWaitingMax + users)));
    EXPECT_EQ(asking->state(), Channel::State::kClosing);
  }
}

TEST_F(ShmChannelMessages, AnAnswerThatWaitsIsEnough) {
  fill();
  const auto answer = [&](std::uint32_t source, std::uint32_t destination) {
    return left_->answer({.source = QpNumber(source), .destination = QpNumber(destination)});
  };
  for (int twice = 0; twice < 2; ++twice) {
    EXPECT_TRUE(answer(1, 0));
    EXPECT_TRUE(answer(0, 1));
    EXPECT_TRUE(answer(1, 1));
  }
  EXPECT_EQ(take_all(*right_).size(), kControlSlots);
  left_->flush_control();
  EXPECT_EQ(take_all(*right_), (Numbers{1, 0, 1}));
}

TEST_F(ShmChannelMessages, AnAnswerThatWasSentMayBeAskedForAgain) {
  fill();
  EXPECT_TRUE(left_->answer(numbered(1)));
  EXPECT_EQ(take_all(*right_).size(), kControlSlots);
  left_->flush_control();
  EXPECT_EQ(take_all(*right_), Numbers{1});
  fill();
  EXPECT_TRUE(left_->answer(numbered(1)));
  EXPECT_FALSE(left_->control_flushed());
  EXPECT_EQ(take_all(*right_).size(), kControlSlots);
  left_->flush_control();
  EXPECT_EQ(take_all(*right_), Numbers{1});
}

TEST_F(ShmChannelMessages, ALieAboutTheControlRingEndsWhatWaitsForIt) {
  for (std::uint32_t i = 0; i < kControlSlots + 10; ++i) left_->send(numbered(i));
  EXPECT_FALSE(left_->control_flushed());
  control_ring().head = 2 * kControlSlots;
  left_->flush_control();
  EXPECT_EQ(left_->state(), Channel::State::kClosing);
  EXPECT_TRUE(left_->control_flushed());
}

TEST_F(ShmChannelMessages, FullControlRingWakesItsSenderWhenThereIsRoom) {
  for (std::uint64_t i = 0; i <= kControlSlots; ++i)
    left_->send({.kind = ControlMessage::Kind::kWithdraw});
  EXPECT_FALSE(left_->control_flushed());
  EXPECT_TRUE(left_->stalled_since());
  left_->fall_asleep(false);
  right_->control_in().pop();
  right_->note_consumed();
  right_->ring_if_due();
  EXPECT_TRUE(left_ears_.was_rung(1000));
  left_->flush_control();
  EXPECT_TRUE(left_->control_flushed());
  EXPECT_FALSE(left_->stalled_since());
}

// A peer that takes some, however slowly, is not given up.
TEST_F(ShmChannelMessages, TheStallBeginsAnewWithEachMessageThatIsTaken) {
  for (std::uint64_t i = 0; i < kControlSlots + 2; ++i)
    left_->send({.kind = ControlMessage::Kind::kWithdraw});
  const auto first = left_->stalled_since();
  ASSERT_TRUE(first);
  while (std::chrono::steady_clock::now() <= *first) continue;
  left_->flush_control();  // nothing was taken
  EXPECT_EQ(left_->stalled_since(), first);
  right_->control_in().pop();
  right_->note_consumed();
  right_->ring_if_due();
  left_->flush_control();
  EXPECT_FALSE(left_->control_flushed());
  EXPECT_GT(left_->stalled_since(), first);
}

TEST_F(ShmChannelMessages, WhatWaitedForTheMemoryStallsFromItsArrivalOn) {
  const auto asking = make();
  for (std::uint64_t i = 0; i < kControlSlots + 1; ++i)
    asking->send({.kind = ControlMessage::Kind::kWithdraw});
  EXPECT_FALSE(asking->stalled_since());
  auto ends = std::move(broker::make_channel(sizeof(ChannelMemory)).value());
  ASSERT_TRUE(asking->attach(Channel::Side::kDialler, std::move(ends[0])));
  EXPECT_FALSE(asking->control_flushed());
  EXPECT_TRUE(asking->stalled_since());
}

TEST_F(ShmChannelMessages, MoreThatWaitsDoesNotMakeTheStallYounger) {
  fill();
  left_->send(numbered(0));
  const auto first = left_->stalled_since();
  ASSERT_TRUE(first);
  while (std::chrono::steady_clock::now() <= *first) continue;
  left_->send(numbered(1));
  EXPECT_TRUE(left_->answer(numbered(2)));
  EXPECT_EQ(left_->stalled_since(), first);
}

TEST_F(ShmChannelMessages, WhoClosesLetsGoOfWhatWaits) {
  fill();
  left_->send(numbered(0));
  left_->await_grant(TimePoint{});
  left_->close();
  EXPECT_EQ(left_->state(), Channel::State::kClosing);
  EXPECT_TRUE(left_->control_flushed());
  EXPECT_FALSE(left_->stalled_since());
  EXPECT_FALSE(left_->awaiting_grant());
  EXPECT_NE(left_->bell(), -1);
  EXPECT_TRUE(right_->peer_alive());
}

TEST_F(ShmChannelMessages, WhoClosesSaysNoMore) {
  left_->close();
  left_->send(numbered(1));
  EXPECT_TRUE(left_->answer(numbered(2)));
  EXPECT_TRUE(left_->control_flushed());
  EXPECT_FALSE(right_->control_waiting());
}

TEST_F(ShmChannelMessages, WhatThePeerPostedBeforeTheCloseIsStillReceived) {
  post();
  right_->close();
  EXPECT_FALSE(right_->consumer().empty());
  EXPECT_EQ(right_->consumer().tail(), 1u);
}

TEST_F(ShmChannelMessages, ATerminatedChannelKeepsNothingThatWaits) {
  fill();
  left_->send(numbered(0));
  left_->terminate();
  EXPECT_EQ(left_->state(), Channel::State::kDead);
  EXPECT_TRUE(left_->control_flushed());
  EXPECT_FALSE(left_->stalled_since());
  EXPECT_FALSE(left_->peer_alive());
  EXPECT_FALSE(right_->peer_alive());
  left_->close();  // no way back
  EXPECT_EQ(left_->state(), Channel::State::kDead);
}

}  // namespace
}  // namespace fairlead::rdma::shm
