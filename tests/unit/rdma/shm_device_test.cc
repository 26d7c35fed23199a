// The life of a device's channels and queue pairs, and what is left when they have gone.
#include "rdma/shm/shm_device.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "rdma/shm/shm_limits.h"
#include "unit/rdma/shm_device_test.h"

namespace fairlead::rdma::shm {
namespace {

using ShmDeviceLife = ShmDeviceTest;
using ShmFacedDeviceLife = Faced<ShmDeviceTest>;

TEST_F(ShmDeviceLife, ADeviceThatDoesNothingSleeps) {
  EXPECT_FALSE(timer_runs());
  EXPECT_EQ(watcher_.watched, std::set<int>{device_.parts().timer.descriptor()});
  EXPECT_FALSE(device_.pending());
  EXPECT_TRUE(device_.arm());
}

TEST_F(ShmDeviceLife, TheFirstWordIsWhoSendsToWhom) {
  const auto queue_pair = make_queue_pair(PortNumber(2));
  FarSide far = send_channel(kPeer, 1);
  ASSERT_TRUE(connect(*queue_pair));
  const auto heard = far.hear();
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->kind, Kind::kQueuePairReady);
  EXPECT_EQ(heard->source, queue_pair->number());
  EXPECT_EQ(heard->destination, kTheirs);
  EXPECT_EQ(heard->source_port, PortNumber(2));
  EXPECT_EQ(heard->destination_port, PortNumber(1));
  EXPECT_EQ(heard->domain, domain_.id());
  EXPECT_FALSE(far.hear());
}

// One channel is enough, also when its descriptor has not been seen to be readable.
TEST_F(ShmDeviceLife, ConnectTakesTheChannelThatThePeerHasOpened) {
  const auto queue_pair = make_queue_pair();
  FarSide far = send_channel(kPeer, 1);
  ASSERT_TRUE(connect(*queue_pair));
  EXPECT_TRUE(connector_->requested.empty());
  EXPECT_EQ(channel_count(), 1u);
  EXPECT_FALSE(timer_runs());
  EXPECT_EQ(watcher_.watched,
            (std::set<int>{device_.parts().timer.descriptor(), channel()->bell()}));
}

TEST_F(ShmDeviceLife, AnAnswerThatComesAtOnceIsNotWaitedFor) {
  const auto queue_pair = make_queue_pair();
  auto [event, far] = make_channel(kPeer, 0);
  connector_->answer = std::move(event);
  ASSERT_TRUE(connect(*queue_pair));
  EXPECT_EQ(connector_->requested, std::vector{kPeer});
  EXPECT_TRUE(far.hear(Kind::kQueuePairReady));
  EXPECT_FALSE(timer_runs());
}

TEST_F(ShmDeviceLife, WhatIsSaidBeforeTheAnswerComesIsHeardAfterwards) {
  const auto one = make_queue_pair(), two = make_queue_pair();
  ASSERT_TRUE(connect(*one));
  EXPECT_TRUE(timer_runs());
  wait_long();
  let_timer_expire();
  EXPECT_TRUE(timer_runs());
  ASSERT_TRUE(connect(*two, kPeer, kTheirSecond));
  EXPECT_EQ(connector_->requested, std::vector{kPeer});  // one channel for both
  FarSide far = send_channel(kPeer, 0);
  take_arrivals();
  EXPECT_EQ(connector_->readable, 1);
  EXPECT_EQ(far.hear(Kind::kQueuePairReady)->source, one->number());
  EXPECT_EQ(far.hear(Kind::kQueuePairReady)->source, two->number());
  expect_timer_stops();
  EXPECT_FALSE(has_fatal(*one));
  EXPECT_TRUE(sleeps());
}

TEST_F(ShmDeviceLife, NobodyIsWaitedForWhoCannotBeReached) {
  const auto queue_pair = make_queue_pair();
  connector_->reachable = false;
  EXPECT_EQ(connect(*queue_pair).error().code, Errc::kPeerGone);
  EXPECT_EQ(channel_count(), 0u);
  EXPECT_FALSE(timer_runs());
  EXPECT_TRUE(sleeps());
  connector_->reachable = true;
  EXPECT_TRUE(connect(*queue_pair));
}

TEST_F(ShmDeviceLife, AnAnswerThatNobodyWantsAnyMoreIsGivenBack) {
  auto queue_pair = make_queue_pair();
  ASSERT_TRUE(connect(*queue_pair));
  queue_pair.reset();
  EXPECT_EQ(channel_count(), 1u);
  FarSide far = send_channel(kPeer, 0);
  take_arrivals();
  turn();
  EXPECT_TRUE(far.is_shut_out());
  EXPECT_EQ(channel_count(), 0u);
  expect_timer_stops();
  EXPECT_TRUE(sleeps());
}

// The refusal of a request whose queue pair is destroyed does not concern the next queue pair.
TEST_F(ShmDeviceLife, ARefusalThatCameTooLateIsAskedAgain) {
  auto gone = make_queue_pair();
  ASSERT_TRUE(connect(*gone));
  gone.reset();
  const auto next = make_queue_pair();
  ASSERT_TRUE(connect(*next));
  EXPECT_EQ(connector_->requested.size(), 1u);
  send_refusal(kPeer);
  take_arrivals();
  EXPECT_EQ(connector_->requested, std::vector(2, kPeer));
  FarSide far = send_channel(kPeer, 0);
  take_arrivals();
  turn();
  EXPECT_FALSE(has_fatal(*next));
  EXPECT_TRUE(far.hear(Kind::kQueuePairGone));  // the first one, after all that it had said
  EXPECT_EQ(far.hear(Kind::kQueuePairReady)->source, next->number());
}

TEST_F(ShmDeviceLife, WhoIsRefusedAChannelIsTold) {
  const auto queue_pair = make_queue_pair();
  ASSERT_TRUE(connect(*queue_pair));
  EXPECT_TRUE(sleeps());
  send_refusal(kPeer);
  take_arrivals();
  EXPECT_TRUE(device_.pending());
  turn();
  EXPECT_TRUE(has_fatal(*queue_pair));
  expect_timer_stops();
}

TEST_F(ShmDeviceLife, NoAnswerIsNotWaitedForForever) {
  const auto queue_pair = make_queue_pair();
  ASSERT_TRUE(connect(*queue_pair));
  EXPECT_TRUE(sleeps());
  const TimePoint asked_at = channel()->asked_at();
  EXPECT_TRUE(control_.check_waits(asked_at + kAnswerWaitMax / 2));
  EXPECT_FALSE(device_.pending());
  EXPECT_FALSE(control_.check_waits(asked_at + kAnswerWaitMax));
  EXPECT_TRUE(device_.pending());
  turn();
  EXPECT_TRUE(has_fatal(*queue_pair));
  expect_fault(Errc::kTimedOut);
}

// The connector is lost. What it has brought stays.
TEST_F(ShmDeviceLife, WithoutAConnectorNoAnswerIsWaitedFor) {
  const auto waiting = make_queue_pair(), served = make_queue_pair();
  FarSide far = face(*served, kOther);
  ASSERT_TRUE(connect(*waiting));
  EXPECT_TRUE(sleeps());
  connector_->arrivals.emplace_back(Error{Errc::kPeerGone, "test"});
  take_arrivals();
  EXPECT_TRUE(device_.pending());
  turn();
  EXPECT_TRUE(has_fatal(*waiting));
  EXPECT_FALSE(has_fatal(*served));
  EXPECT_FALSE(far.is_shut_out());
}

TEST_F(ShmDeviceLife, AnEventThatIsLostDoesNotHoldUpTheNext) {
  connector_->arrivals.emplace_back(Error{Errc::kMalformed, "test"});
  FarSide far = send_channel(kPeer, 1);
  take_arrivals();
  EXPECT_NE(channel(), nullptr);
  EXPECT_FALSE(far.is_shut_out());
}

TEST_F(ShmDeviceLife, AnAnswerThatIsNoChannelFailsWhoAskedForIt) {
  const auto queue_pair = make_queue_pair();
  ASSERT_TRUE(connect(*queue_pair));
  EXPECT_TRUE(sleeps());
  auto [event, far] = make_channel(kPeer, 0);
  event.end.memory = std::move(broker::make_memory("test", 4096).value());
  connector_->arrivals.emplace_back(std::move(event));
  take_arrivals();
  expect_fault(Errc::kMalformed);
  EXPECT_TRUE(device_.pending());
  turn();
  EXPECT_TRUE(has_fatal(*queue_pair));
}

TEST_F(ShmDeviceLife, ChannelsThatNoDescriptorTellsOfAreTakenInByPoll) {
  connector_->tells = true;
  FarSide far = send_channel(kPeer, 1);
  EXPECT_TRUE(device_.pending());
  EXPECT_FALSE(device_.arm());
  turn();
  EXPECT_NE(channel(), nullptr);
  EXPECT_TRUE(sleeps());
}

// A peer can have said something before its channel is taken in.
TEST_F(ShmDeviceLife, ANewChannelIsLookedAt) {
  const auto queue_pair = make_queue_pair();
  FarSide far = send_channel(kPeer, 1);
  far.say(ready_for(*queue_pair));
  EXPECT_TRUE(device_.arm());
  take_arrivals();
  EXPECT_TRUE(device_.pending());
  turn();
  EXPECT_TRUE(queue_pair->has_incoming());
}

TEST_F(ShmFacedDeviceLife, APeerThatEndsLeavesNothing) {
  send_grant(kPeer, 1);
  send_grant(kPeer, 2);  // and never announced
  far_->say(announcement(1));
  ASSERT_TRUE(queue_pair_->remote_memory(kTheirMemory, 4096));
  EXPECT_EQ(device_.parts().grants.count(), 1u);
  EXPECT_EQ(device_.parts().channels.budget().count(), 2u);
  const int bell = channel()->bell();
  far_->end();
  device_.handle_readable(bell);
  turn();
  EXPECT_TRUE(has_fatal(*queue_pair_));
  EXPECT_EQ(device_.parts().grants.count(), 0u);
  EXPECT_EQ(watcher_.watched, std::set<int>{device_.parts().timer.descriptor()});
  device_.handle_readable(bell);  // seen to be readable before it was closed
  queue_pair_.reset();
  turn();
  EXPECT_EQ(channel_count(), 0u);
  EXPECT_EQ(device_.parts().channels.budget().count(), 0u);
  EXPECT_EQ(device_.parts().channels.budget().bytes(), 0u);
  EXPECT_FALSE(device_.parts().faults.poll());
  EXPECT_FALSE(timer_runs());
  EXPECT_TRUE(sleeps());
}

TEST_F(ShmDeviceLife, APeerIsForgottenWithTheLastOfItsChannels) {
  FarSide other = send_channel(kOther, 1);
  FarSide first = send_channel(kPeer, 1), second = send_channel(kPeer, 1);
  take_arrivals();
  Channel* const newest = channel();
  std::vector<int> bells;
  device_.parts().channels.for_each([&](const Channel& one) { bells.push_back(one.bell()); });
  ASSERT_EQ(bells.back(), newest->bell());
  send_grant(kPeer, 1);
  send_grant(kOther, 1);
  take_arrivals();
  first.end();
  device_.handle_readable(bells[1]);
  turn();
  EXPECT_EQ(channel_count(), 2u);
  EXPECT_EQ(device_.parts().grants.count(), 2u);
  second.end();
  device_.handle_readable(bells[2]);
  turn();
  EXPECT_EQ(channel_count(), 1u);
  EXPECT_EQ(device_.parts().grants.count(), 1u);
  EXPECT_FALSE(other.is_shut_out());
}

// Both asked at the same moment: the queue pair posts on one channel and receives on the other.
class ShmTwoChannels : public ShmDeviceLife {
 protected:
  void SetUp() override {
    ShmDeviceLife::SetUp();
    queue_pair_ = make_queue_pair();
    ASSERT_TRUE(connect(*queue_pair_));
    out_.emplace(send_channel(kPeer, 0));
    take_arrivals();
    out_bell_ = channel()->bell();
    ASSERT_TRUE(post(*queue_pair_));
    turn();
    in_.emplace(send_channel(kPeer, 1));
    in_->say(ready_for(*queue_pair_));
  }
  void TearDown() override {
    out_.reset();
    in_.reset();
    queue_pair_.reset();
    ShmDeviceLife::TearDown();
  }
  void put(int count) {
    for (int i = 0; i < count; ++i) in_->put(queue_pair_->number(), kTheirs);
  }
  // Once, and takes no events.
  void poll(std::size_t count) {
    std::vector<Completion> batch(count);
    batch.resize(device_.poll(batch));
    for (const Completion& completion : batch)
      (completion.kind == Completion::Kind::kReceive ? received_ : sent_).push_back(completion);
  }
  void out_ends() {
    out_->end();
    device_.handle_readable(out_bell_);
  }
  void expect_failed(std::size_t received) {
    for (int turns = 0; device_.pending() && turns < 4; ++turns) turn();
    EXPECT_EQ(received_.size(), received);
    EXPECT_TRUE(has_fatal(*queue_pair_));
    ASSERT_EQ(sent_.size(), 1u);
    EXPECT_EQ(sent_[0].status, CompletionStatus::kRetryExceeded);
    EXPECT_FALSE(device_.parts().faults.poll());
    EXPECT_TRUE(sleeps());
  }

  std::unique_ptr<ShmQueuePair> queue_pair_;
  std::optional<FarSide> out_, in_;
  int out_bell_ = -1;
};

// More than one poll() takes.
TEST_F(ShmTwoChannels, TheLastMessagesOfAPeerArriveBeforeItsEndIsTold) {
  take_arrivals();
  turn();
  const int in_bell = channel()->bell();
  put(20);
  in_->end();
  out_ends();
  device_.handle_readable(in_bell);
  poll(8);
  EXPECT_FALSE(device_.parts().events.poll());
  expect_failed(20);
  EXPECT_EQ(watcher_.watched, std::set<int>{device_.parts().timer.descriptor()});
}

// It is still on its way from the connector when the end of the other one is noticed.
TEST_F(ShmTwoChannels, AChannelThatComesWithTheEndOfItsPeerIsRead) {
  put(20);
  in_->end();
  out_ends();
  expect_failed(20);
}

// It goes on sending on the other one.
TEST_F(ShmTwoChannels, APeerThatEndsOneOfTheChannelsDelaysNoEnd) {
  take_arrivals();
  turn();
  out_ends();
  for (int polls = 0; polls < 6; ++polls) {
    put(2);
    poll(2);
  }
  EXPECT_LT(received_.size(), 12u);
  expect_failed(received_.size());
  EXPECT_FALSE(in_->is_shut_out());
}

TEST_F(ShmTwoChannels, MessagesThatNothingTakesDelayNoEnd) {
  take_arrivals();
  turn();
  put(33);  // one more than there are receive requests
  turn();
  EXPECT_EQ(received_.size(), 32u);
  out_ends();
  expect_failed(32);
}

TEST_F(ShmTwoChannels, ALieOnTheOtherChannelDelaysNoEnd) {
  take_arrivals();
  turn();
  in_->memory().rings[0].tail = kRingSlots + 1;
  out_ends();
  turn();
  EXPECT_TRUE(has_fatal(*queue_pair_));
  expect_fault(Errc::kMalformed);
  expect_failed(0);
}

TEST_F(ShmDeviceLife, AChannelThatThePeerOpenedIsReadAlthoughOursIsRefused) {
  const auto queue_pair = make_queue_pair();
  ASSERT_TRUE(connect(*queue_pair));
  FarSide in = send_channel(kPeer, 1);
  in.say(ready_for(*queue_pair));
  for (int i = 0; i < 3; ++i) in.put(queue_pair->number(), kTheirs);
  in.end();
  send_refusal(kPeer);
  take_arrivals();
  turn();
  EXPECT_EQ(received_.size(), 3u);
  EXPECT_TRUE(has_fatal(*queue_pair));
  EXPECT_TRUE(sleeps());
}

// Nobody rang, and its descriptor has not been looked at.
TEST_F(ShmDeviceLife, ConnectSeesThatAChannelHasEnded) {
  auto one = make_queue_pair(), two = make_queue_pair();
  FarSide far = face(*one);
  EXPECT_TRUE(sleeps());
  send_grant(kPeer, 1);
  take_arrivals();
  far.end();
  ASSERT_TRUE(connect(*two, kPeer, kTheirSecond));
  EXPECT_EQ(connector_->requested, std::vector{kPeer});
  EXPECT_TRUE(device_.pending());
  turn();
  EXPECT_TRUE(has_fatal(*one));
  EXPECT_FALSE(has_fatal(*two));
  EXPECT_EQ(device_.parts().grants.count(), 1u);  // the peer is asked for another channel
}

TEST_F(ShmDeviceLife, QueuePairsShareAChannelUntilTheLastHasGone) {
  auto one = make_queue_pair(), two = make_queue_pair();
  FarSide far = face(*one);
  ASSERT_TRUE(connect(*two, kPeer, kTheirSecond));
  const QpNumber first = one->number(), second = two->number();
  one.reset();
  turn();
  const auto heard = far.hear(Kind::kQueuePairGone);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->source, first);
  EXPECT_EQ(heard->destination, kTheirs);
  EXPECT_EQ(channel()->users(), 1u);
  two.reset();
  turn();
  EXPECT_EQ(far.hear(Kind::kQueuePairGone)->source, second);
  EXPECT_EQ(channel()->users(), 0u);
  EXPECT_FALSE(far.is_shut_out());
  EXPECT_TRUE(sleeps());
}

TEST_F(ShmFacedDeviceLife, ADestroyedQueuePairIsNotHeardOfAnyMore) {
  ASSERT_TRUE(post(*queue_pair_));
  device_.set_port_state(PortNumber(1), PortState::kDown);  // its requests are to be flushed
  EXPECT_TRUE(device_.pending());
  queue_pair_.reset();
  std::vector<AsyncEvent::Kind> kinds;
  while (const auto event = device_.parts().events.poll()) kinds.push_back(event->kind);
  EXPECT_EQ(kinds, std::vector{AsyncEvent::Kind::kPortDown});
  EXPECT_FALSE(device_.pending());
  turn();
  EXPECT_TRUE(sent_.empty());
}

TEST_F(ShmDeviceLife, ADestroyedQueuePairMakesRoomForAnother) {
  std::vector<std::unique_ptr<ShmQueuePair>> all;
  while (all.size() < kQueuePairsMax) all.push_back(make_queue_pair());
  const QueuePairOptions options{.domain = &domain_, .receive_queue = &receives_};
  {
    ShmQueuePair one_more(device_, options, PacketSeq(1));
    EXPECT_EQ(device_.add(one_more).error().code, Errc::kExhausted);
    EXPECT_EQ(one_more.number(), QpNumber(0));
  }
  all.pop_back();
  ShmQueuePair one_more(device_, options, PacketSeq(1));
  EXPECT_TRUE(device_.add(one_more));
  EXPECT_NE(one_more.number(), all.front()->number());
}

TEST_F(ShmDeviceLife, APortThatGoesDownBreaksWhatIsConnectedOnIt) {
  const auto broken = make_queue_pair(), waiting = make_queue_pair();
  const auto elsewhere = make_queue_pair(PortNumber(2));
  FarSide far = face(*broken), other = face(*elsewhere, kOther);
  ASSERT_TRUE(post(*broken));
  device_.set_port_state(PortNumber(1), PortState::kDown);
  EXPECT_TRUE(device_.pending());
  EXPECT_FALSE(device_.arm());
  turn();
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].status, CompletionStatus::kRetryExceeded);
  EXPECT_TRUE(has_fatal(*broken));
  EXPECT_EQ(far.hear(Kind::kQueuePairGone)->source, broken->number());
  EXPECT_EQ(waiting->state(), ShmQueuePair::State::kUnconnected);
  EXPECT_EQ(elsewhere->state(), ShmQueuePair::State::kReady);
  EXPECT_FALSE(other.hear(Kind::kQueuePairGone));
  EXPECT_EQ(connect(*waiting).error().code, Errc::kPeerGone);
  device_.set_port_state(PortNumber(1), PortState::kActive);
  EXPECT_TRUE(connect(*waiting));
  turn();
  EXPECT_EQ(events_.back().kind, AsyncEvent::Kind::kPortUp);
}

TEST_F(ShmDeviceLife, APortTellsOnlyOfChanges) {
  device_.set_port_state(PortNumber(2), PortState::kActive);
  EXPECT_FALSE(device_.pending());
  device_.set_port_state(PortNumber(2), PortState::kDown);
  EXPECT_TRUE(device_.pending());
  const auto event = device_.parts().events.poll();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, AsyncEvent::Kind::kPortDown);
  EXPECT_EQ(event->port, PortNumber(2));
  device_.set_port_state(PortNumber(2), PortState::kDown);
  EXPECT_FALSE(device_.pending());
}

// A peer that announces its queue pair to one on a port that is down is refused.
TEST_F(ShmDeviceLife, NobodySendsToAPortThatIsDown) {
  const auto queue_pair = make_queue_pair();
  device_.set_port_state(PortNumber(1), PortState::kDown);
  FarSide far = send_channel(kPeer, 1);
  far.say(ready_for(*queue_pair));
  take_arrivals();
  turn();
  const auto heard = far.hear();
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->kind, Kind::kQueuePairGone);
  EXPECT_EQ(heard->source, queue_pair->number());
  EXPECT_EQ(heard->destination, kTheirs);
  EXPECT_FALSE(queue_pair->has_incoming());
}

// A message for a queue pair that is not connected yet holds up those behind it.
TEST_F(ShmDeviceLife, WhoWillNeverConnectHoldsUpNobody) {
  for (const bool destroyed : {true, false}) {
    received_.clear();
    auto late = make_queue_pair(), faced = make_queue_pair();
    FarSide far = face(*faced, destroyed ? kPeer : kOther);
    far.say(ready_for(*late, kTheirSecond));
    far.put(late->number(), kTheirSecond);
    far.put(faced->number(), kTheirs);
    hear_bell(destroyed ? kPeer : kOther);
    turn();
    EXPECT_TRUE(received_.empty());
    if (destroyed)
      late.reset();
    else
      late->fail();
    EXPECT_TRUE(device_.pending());
    turn();
    ASSERT_EQ(received_.size(), 1u);
    EXPECT_EQ(received_[0].queue_pair, faced->number());
  }
}

TEST_F(ShmDeviceLife, ConnectLetsOnlyItsOwnMessagesGoOn) {
  auto one = make_queue_pair(), two = make_queue_pair();
  FarSide first = send_channel(kPeer, 1), second = send_channel(kOther, 1);
  first.say(ready_for(*one));
  first.put(one->number(), kTheirs);
  second.say(ready_for(*two));
  second.put(two->number(), kTheirs);
  take_arrivals();
  turn();
  EXPECT_TRUE(received_.empty());
  ASSERT_TRUE(connect(*two, kOther));
  turn();
  ASSERT_EQ(received_.size(), 1u);
  EXPECT_EQ(received_[0].queue_pair, two->number());
  EXPECT_FALSE(device_.pending());
}

TEST_F(ShmDeviceLife, ReceiveRequestsLetTheirOwnMessagesGoOn) {
  ShmReceiveQueue empty(device_, 4), other(device_, 4);
  auto one = make_queue_pair(PortNumber(1), &empty), two = make_queue_pair(PortNumber(1), &other);
  FarSide first = face(*one), second = face(*two, kOther);
  first.put(one->number(), kTheirs);
  second.put(two->number(), kTheirs);
  hear_bell(kPeer);
  hear_bell(kOther);
  turn();
  EXPECT_TRUE(received_.empty());
  EXPECT_TRUE(sleeps());
  post_receives(empty, 1);
  EXPECT_TRUE(device_.pending());
  turn();
  ASSERT_EQ(received_.size(), 1u);
  EXPECT_EQ(received_[0].queue_pair, one->number());
}

TEST_F(ShmFacedDeviceLife, WhatIsPostedIsRungForByArm) {
  far_->channel().fall_asleep(false);
  ASSERT_TRUE(post(*queue_pair_, false));
  EXPECT_FALSE(far_->channel().was_rung());
  EXPECT_TRUE(device_.arm());
  EXPECT_TRUE(far_->channel().was_rung());
}

TEST_F(ShmDeviceLife, DoorbellsAreForTheConnectorToo) {
  device_.ring_doorbells();
  EXPECT_EQ(connector_->flushes, 1);
  EXPECT_TRUE(device_.arm());
  EXPECT_EQ(connector_->flushes, 2);
}

// What has to wait for a full connector is sent as soon as the peer has read.
TEST_F(ShmFacedDeviceLife, WhoHasABacklogAsksToBeWokenByProgress) {
  EXPECT_TRUE(sleeps());
  EXPECT_EQ(far_->memory().sides[1].sleeping.load() & kWakeOnProgress, 0u);
  connector_->waits = true;
  EXPECT_TRUE(sleeps());
  EXPECT_NE(far_->memory().sides[1].sleeping.load() & kWakeOnProgress, 0u);
}

TEST_F(ShmFacedDeviceLife, WhoIsAwakeNeedNotBeRungFor) {
  EXPECT_TRUE(sleeps());
  EXPECT_NE(far_->memory().sides[1].sleeping.load(), 0u);
  device_.disarm();
  EXPECT_EQ(far_->memory().sides[1].sleeping.load(), 0u);
}

}  // namespace
}  // namespace fairlead::rdma::shm
