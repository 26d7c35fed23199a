// The protocol for sleeping and waking, without a device.
#include "rdma/shm/channel/shm_channel.h"

#include <gtest/gtest.h>

#include "unit/rdma/shm_channel_pair.h"

namespace fairlead::rdma::shm {
namespace {

class ShmChannel : public ShmChannelPair {
 protected:
  bool was_rung(int timeout_milliseconds) { return right_ears_.was_rung(timeout_milliseconds); }
};

TEST_F(ShmChannel, RingsOnlyForWhoSleeps) {
  post();
  left_->ring_if_due();
  EXPECT_FALSE(was_rung(0));
  EXPECT_EQ(receive(), 1u);
  right_->fall_asleep(false);
  left_->ring_if_due();  // nothing new
  EXPECT_FALSE(was_rung(0));
  post();
  left_->ring_if_due();
  EXPECT_TRUE(was_rung(1000));
  post();
  left_->ring_if_due();  // it has been rung, and has not fallen asleep since
  EXPECT_FALSE(was_rung(0));
}

TEST_F(ShmChannel, RingsForProgressOnlyWhoWantsIt) {
  post();
  left_->ring_if_due();
  left_->fall_asleep(false);
  EXPECT_EQ(receive(), 1u);
  right_->note_consumed();
  right_->ring_if_due();
  EXPECT_FALSE(left_ears_.was_rung(0));
  left_->note_signaled();
  left_->fall_asleep(false);
  right_->note_consumed();
  right_->ring_if_due();
  EXPECT_TRUE(left_ears_.was_rung(1000));
}

TEST_F(ShmChannel, RingingDoesNotWakeTheRinger) {
  right_->fall_asleep(false);
  post();
  left_->ring_if_due();
  EXPECT_FALSE(left_ears_.was_rung(0));
  EXPECT_TRUE(was_rung(1000));
}

TEST_F(ShmChannel, ControlMessagesRingToo) {
  right_->fall_asleep(false);
  left_->send({.kind = ControlMessage::Kind::kWithdraw, .rkey = RemoteKey(5)});
  left_->ring_if_due();
  EXPECT_TRUE(was_rung(1000));
  EXPECT_TRUE(right_->has_work(true));
  EXPECT_EQ(right_->control_in().front()->rkey, RemoteKey(5));
}

TEST_F(ShmChannel, OnlyWhoSleptWhenItsWishWasTakenWasRung) {
  EXPECT_FALSE(right_->was_rung());
  right_->fall_asleep(false);
  EXPECT_FALSE(right_->was_rung());
  post();
  left_->ring_if_due();
  EXPECT_TRUE(right_->was_rung());
  right_->stay_awake();
  EXPECT_FALSE(right_->was_rung());
}

// Also who sends nothing, and whose last wish has been taken.
TEST_F(ShmChannel, WhoStaysAwakeIsNotRung) {
  right_->fall_asleep(false);
  right_->stay_awake();
  EXPECT_EQ(wish_of(Channel::Side::kAcceptor), 0u);
  post();
  left_->ring_if_due();
  EXPECT_FALSE(was_rung(0));
  EXPECT_FALSE(right_->was_rung());
}

TEST_F(ShmChannel, TheAcceptorRingsTheDiallerToo) {
  left_->fall_asleep(false);
  ASSERT_TRUE(right_->producer().refresh());
  right_->producer().push(kHeader, kMessage);
  right_->note_posted();
  right_->ring_if_due();
  EXPECT_TRUE(left_ears_.was_rung(1000));
  EXPECT_FALSE(was_rung(0));
  EXPECT_TRUE(left_->was_rung());
  ASSERT_TRUE(left_->consumer().refresh());
  EXPECT_EQ(left_->consumer().front()->source, kHeader.source);
}

TEST_F(ShmChannel, RingingShowsThePeerWhatWasPostedAndConsumed) {
  ASSERT_TRUE(left_->producer().refresh());
  left_->producer().push(kHeader, kMessage);
  left_->ring_if_due();
  EXPECT_EQ(receive(), 0u);  // nobody has said that something was posted
  left_->note_posted();
  left_->ring_if_due();
  ASSERT_TRUE(right_->consumer().refresh());
  ASSERT_FALSE(right_->consumer().empty());
  right_->consumer().pop(*right_->consumer().front());
  right_->ring_if_due();
  EXPECT_EQ(left_->producer().peek_head(), 0u);
  right_->note_consumed();
  right_->ring_if_due();
  EXPECT_EQ(left_->producer().peek_head(), 1u);
}

TEST_F(ShmChannel, WhoClosesRingsNoMore) {
  right_->fall_asleep(false);
  post();
  left_->close();
  left_->ring_if_due();
  EXPECT_FALSE(was_rung(0));
  EXPECT_EQ(wish_of(Channel::Side::kAcceptor), kWakeOnMessage);
}

TEST_F(ShmChannel, AChannelWithoutMemoryRingsNobody) {
  const auto asking = make();
  asking->note_posted();
  asking->note_consumed();
  EXPECT_EQ(asking->ring_if_due(), Duration::zero());
  EXPECT_EQ(asking->bell(), -1);
}

TEST_F(ShmChannel, WishesForProgressOnlyWhereSomethingWaitsForIt) {
  const auto wish = [&](bool backlog) {
    left_->fall_asleep(backlog);
    return wish_of(Channel::Side::kDialler);
  };
  constexpr std::uint64_t kBoth = kWakeOnMessage | kWakeOnProgress;
  EXPECT_EQ(wish(false), kWakeOnMessage);
  EXPECT_EQ(wish(true), kBoth);
  left_->note_signaled();
  EXPECT_EQ(wish(false), kBoth);
  left_->note_completed();
  left_->note_blocked();
  EXPECT_EQ(wish(false), kBoth);
  left_->stop_waiting_for_room();
  EXPECT_EQ(wish(false), kWakeOnMessage);
}

TEST_F(ShmChannel, AnIdleChannelHasNoWork) {
  for (const bool ordered : {false, true}) {
    EXPECT_FALSE(left_->has_work(ordered));
    EXPECT_FALSE(right_->has_work(ordered));
  }
}

TEST_F(ShmChannel, MessagesAreWorkUntilTheyAreReceived) {
  post();
  left_->ring_if_due();
  for (const bool ordered : {false, true}) EXPECT_TRUE(right_->has_work(ordered));
  ASSERT_TRUE(right_->consumer().refresh());  // seen, and not handled
  for (const bool ordered : {false, true}) EXPECT_TRUE(right_->has_work(ordered));
  EXPECT_EQ(receive(), 1u);
  for (const bool ordered : {false, true}) EXPECT_FALSE(right_->has_work(ordered));
}

// A second look would find the same message, which nobody can take.
TEST_F(ShmChannel, AMessageThatWaitsForAReceiveRequestIsNoWork) {
  post();
  left_->ring_if_due();
  ASSERT_TRUE(right_->consumer().refresh());
  const int queue_pair = 0;  // only its address is looked at
  right_->stall_on(reinterpret_cast<const ShmQueuePair*>(&queue_pair));
  post();
  left_->ring_if_due();
  for (const bool ordered : {false, true}) EXPECT_FALSE(right_->has_work(ordered));
  left_->send({.kind = ControlMessage::Kind::kWithdraw});
  for (const bool ordered : {false, true}) EXPECT_TRUE(right_->has_work(ordered));
}

TEST_F(ShmChannel, WhatWasSaidWithoutRingingIsWorkForWhoFallsAsleep) {
  post();
  EXPECT_FALSE(left_->has_work(false));
  EXPECT_TRUE(left_->has_work(true));
  left_->ring_if_due();
  EXPECT_FALSE(left_->has_work(true));
}

TEST_F(ShmChannel, WhatIsDueIsWork) {
  left_->set_completions_due(true);
  EXPECT_TRUE(left_->has_work(false));
  left_->set_completions_due(false);
  EXPECT_FALSE(left_->has_work(false));
  left_->note_departure();
  EXPECT_TRUE(left_->has_work(false));
}

TEST_F(ShmChannel, ProgressOfThePeerIsWorkForWhoWaitsForIt) {
  for (const bool ordered : {false, true}) {
    post();
    left_->ring_if_due();
    EXPECT_EQ(receive(), 1u);
    EXPECT_FALSE(left_->has_work(ordered));
    left_->note_signaled();
    EXPECT_TRUE(left_->has_work(ordered));
    left_->note_completed();
    left_->note_blocked();
    EXPECT_TRUE(left_->has_work(ordered));
    ASSERT_TRUE(left_->producer().refresh());
    EXPECT_TRUE(left_->take_progress());
    EXPECT_FALSE(left_->take_progress());
    left_->note_blocked();
    EXPECT_FALSE(left_->has_work(ordered));  // what is known is no progress
    left_->stop_waiting_for_room();
  }
}

TEST_F(ShmChannel, NothingIsWorkWhileTheMemoryOfABufferIsAwaited) {
  post();
  left_->ring_if_due();
  right_->await_grant(TimePoint{});
  for (const bool ordered : {false, true}) EXPECT_FALSE(right_->has_work(ordered));
  right_->stop_awaiting_grant();
  EXPECT_TRUE(right_->has_work(false));
}

// Its queue pairs fail first.
TEST_F(ShmChannel, AClosedChannelHasWorkWhileQueuePairsUseIt) {
  left_->close();
  EXPECT_TRUE(left_->has_work(false));
  left_->terminate();
  EXPECT_FALSE(left_->has_work(false));
  left_->add_user();
  EXPECT_TRUE(left_->has_work(false));
}

TEST_F(ShmChannel, DeathOfThePeerIsSeen) {
  EXPECT_TRUE(left_->peer_alive());
  right_.reset();
  EXPECT_TRUE(left_ears_.was_rung(1000));
  EXPECT_FALSE(left_->peer_alive());
}

// Goal: a side that goes to sleep either sees the message or is rung. Method: each step of one side
// before, between and after those of the other.
TEST_F(ShmChannel, WhoFallsAsleepSeesTheMessageOrIsRung) {
  for (const char* order : {"pras", "pars", "apsr", "aprs", "aspr", "pasr"}) {
    bool saw = false;
    ASSERT_TRUE(left_->producer().refresh());
    for (const char* step = order; *step != 0; ++step) switch (*step) {
        case 'p':
          left_->producer().push(kHeader, kMessage);
          left_->producer().publish();
          left_->note_posted();
          break;
        case 'r':
          left_->ring_if_due();
          break;
        case 'a':
          right_->fall_asleep(false);
          break;
        case 's':
          saw = right_->has_work(true);
          break;
        default:
          break;
      }
    EXPECT_TRUE(saw || was_rung(0)) << order;
    right_->stay_awake();
    while (was_rung(0)) {
    }
    EXPECT_EQ(receive(), 1u) << order;
  }
}

}  // namespace
}  // namespace fairlead::rdma::shm
