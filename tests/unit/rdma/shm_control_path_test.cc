// What peers and the connector tell a device beside messages, and how long it waits for them.
#include "rdma/shm/channel/shm_control_path.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "unit/rdma/shm_device_test.h"

namespace fairlead::rdma::shm {
namespace {

class ShmControlPath : public ShmDeviceTest {
 protected:
  static constexpr Duration kForever = std::chrono::hours(1);

  void SetUp() override {
    ShmDeviceTest::SetUp();
    device_.parts().wait_limits = {kForever, kForever};
  }
  // Sends control messages that are answered, until `count` answers wait beside the full ring.
  void make_answers_wait(FarSide& far, std::uint32_t count) {
    const std::uint64_t room = kControlSlots - far.memory().controls[1].tail.load();
    for (std::uint32_t i = 0; i < room + count; ++i) {
      far.say({.kind = Kind::kQueuePairReady,
               .source = QpNumber(0x9000 + i),
               .destination = QpNumber(0xffffff)});
      if (i % 64 == 63) turn();
    }
    turn();
    EXPECT_EQ(channel()->control_flushed(), count == 0);
  }
  std::size_t hear_all(FarSide& far) {
    std::size_t heard = 0;
    while (far.hear()) ++heard;
    return heard;
  }
  bool knows_memory(ShmQueuePair& queue_pair) {
    return queue_pair.remote_memory(kTheirMemory, 4096).has_value();
  }
  // What a queue pair that posts a write, or asks for memory, would find; without looking for more.
  bool has_memory(PeerId peer = kPeer) {
    return channel(peer)->remote().find(kTheirDomain, kTheirMemory.rkey, kTheirMemory.address,
                                        4096) != nullptr;
  }
};

using ShmFacedControlPath = Faced<ShmControlPath>;

TEST_F(ShmFacedControlPath, MemoryThatComesLaterWakesTheChannel) {
  far_->say(announcement(1));
  far_->put(queue_pair_->number(), kTheirs);
  hear_bell();
  EXPECT_TRUE(sleeps());
  EXPECT_TRUE(timer_runs());
  EXPECT_TRUE(received_.empty());
  EXPECT_EQ(queue_pair_->remote_memory(kTheirMemory, 1).error().code, Errc::kWouldBlock);
  send_grant(kPeer, 1);
  take_arrivals();
  turn();
  EXPECT_TRUE(has_memory());
  EXPECT_EQ(received_.size(), 1u);
  expect_timer_stops();
}

// The device may sleep while the memory comes, and its wait may be over before.
TEST_F(ShmFacedControlPath, TheTimerLooksForMemoryAsLongAsItIsAwaited) {
  far_->say(announcement(1));
  far_->put(queue_pair_->number(), kTheirs);
  hear_bell();
  EXPECT_TRUE(sleeps());
  let_timer_expire();
  EXPECT_TRUE(timer_runs());
  EXPECT_TRUE(sleeps());
  EXPECT_FALSE(device_.parts().faults.poll());
  device_.parts().wait_limits = {Duration::zero(), kForever};
  let_timer_expire();
  EXPECT_FALSE(channel()->awaiting_grant());
  expect_fault(Errc::kTimedOut);
  EXPECT_TRUE(device_.pending());
  turn();
  EXPECT_EQ(received_.size(), 1u);
  EXPECT_FALSE(has_memory());
  EXPECT_FALSE(has_fatal(*queue_pair_));
  EXPECT_EQ(queue_pair_->remote_memory(kTheirMemory, 1).error().code, Errc::kNotFound);
  expect_timer_stops();
}

// Each announcement has the whole time, also behind another one.
TEST_F(ShmFacedControlPath, TheWaitForMemoryBeginsWithItsAnnouncement) {
  far_->say(announcement(1));
  hear_bell();
  turn();
  const auto first = channel()->awaiting_grant();
  ASSERT_TRUE(first);
  let_timer_expire();
  turn();
  EXPECT_EQ(channel()->awaiting_grant(), first);
  send_grant(kPeer, 1);
  take_arrivals();
  turn();
  EXPECT_FALSE(channel()->awaiting_grant());
}

TEST_F(ShmFacedControlPath, ADeviceThatGrantsNoTimeDoesNotWaitForMemory) {
  device_.parts().wait_limits = {Duration::zero(), kForever};
  far_->say(announcement(1));
  turn();
  expect_fault(Errc::kTimedOut);
  EXPECT_FALSE(has_fatal(*queue_pair_));
}

TEST_F(ShmFacedControlPath, MemoryThatCannotComeIsNotWaitedFor) {
  connector_->brings = false;
  far_->say(announcement(1));
  turn();
  EXPECT_FALSE(channel()->awaiting_grant());
  expect_fault(Errc::kPeerGone);
  EXPECT_FALSE(timer_runs());
}

TEST_F(ShmFacedControlPath, MemoryOfALostConnectorIsNotWaitedForAnyMore) {
  far_->say(announcement(1));
  far_->put(queue_pair_->number(), kTheirs);
  hear_bell();
  EXPECT_TRUE(sleeps());
  connector_->brings = false;
  connector_->tells = true;  // the loss was noticed by a request, and no descriptor tells of it
  connector_->arrivals.emplace_back(Error{Errc::kPeerGone, "test"});
  turn();
  expect_fault(Errc::kPeerGone);
  EXPECT_EQ(received_.size(), 1u);
  EXPECT_FALSE(has_fatal(*queue_pair_));
}

// What it said behind the announcement is heard.
TEST_F(ShmControlPath, MemoryOfAPeerThatHasEndedIsNotWaitedFor) {
  const auto queue_pair = make_queue_pair(), other = make_queue_pair();
  FarSide far = face(*queue_pair);
  far.say(announcement(1));
  far.say(ready_for(*other, kTheirSecond));
  far.put(queue_pair->number(), kTheirs);
  hear_bell();
  turn();
  EXPECT_FALSE(other->has_incoming());
  far.end();
  hear_bell();
  EXPECT_TRUE(other->has_incoming());
  turn();
  EXPECT_EQ(received_.size(), 1u);
  EXPECT_TRUE(has_fatal(*queue_pair));
  EXPECT_FALSE(other->has_incoming());
  EXPECT_FALSE(has_fatal(*other));
  expect_timer_stops();
}

TEST_F(ShmFacedControlPath, MemoryThatCannotBeMappedIsNotWaitedFor) {
  send_grant(kPeer, 1, FileDescriptor(::memfd_create("unsealed", MFD_CLOEXEC)));
  far_->say(announcement(1));
  turn();
  expect_fault(Errc::kMalformed);
  EXPECT_FALSE(channel()->awaiting_grant());
  EXPECT_FALSE(has_memory());
  EXPECT_EQ(device_.parts().channels.budget().count(), 0u);
  EXPECT_EQ(device_.parts().grants.count(), 0u);
}

TEST_F(ShmFacedControlPath, ABufferIsGrantedAgainWhileItsAnnouncementIsNotTaken) {
  hear_all(*far_);
  make_buffer();
  ASSERT_EQ(connector_->granted.size(), 1u);
  EXPECT_TRUE(timer_runs());
  EXPECT_TRUE(control_.check_waits(in(kGrantAgainAfter / 2)));
  EXPECT_EQ(connector_->granted.size(), 1u);
  for (unsigned again = 1; again <= 5; ++again) {
    EXPECT_TRUE(control_.check_waits(in((again + 1) * kGrantAgainAfter)));
    EXPECT_EQ(connector_->granted.size(), 1u + again);
    EXPECT_EQ(connector_->granted.back(), connector_->granted.front());
  }
  EXPECT_FALSE(control_.check_waits(in(kGrantAgainMax)));
  EXPECT_EQ(connector_->granted.size(), 6u);
}

// What stands before an announcement may be what the peer waits for.
TEST_F(ShmFacedControlPath, OnlyTheBufferThatThePeerWaitsForIsGrantedAgain) {
  hear_all(*far_);
  make_buffer();
  make_buffer();
  ASSERT_EQ(connector_->granted.size(), 2u);
  const auto second = connector_->granted.back();
  control_.check_waits(in(2 * kGrantAgainAfter));
  EXPECT_EQ(connector_->granted.back(), connector_->granted.front());
  ASSERT_TRUE(far_->hear(Kind::kAnnounce));
  control_.check_waits(in(4 * kGrantAgainAfter));
  ASSERT_EQ(connector_->granted.size(), 4u);
  EXPECT_EQ(connector_->granted.back(), second);
  ASSERT_TRUE(far_->hear(Kind::kAnnounce));
  EXPECT_FALSE(control_.check_waits(in(6 * kGrantAgainAfter)));
  EXPECT_EQ(connector_->granted.size(), 4u);
}

TEST_F(ShmFacedControlPath, MemoryThatIsGrantedAgainIsKeptOnce) {
  send_grant(kPeer, 1);
  send_grant(kPeer, 1);
  take_arrivals();
  EXPECT_EQ(device_.parts().grants.count(), 1u);
  far_->say(announcement(1));
  turn();
  EXPECT_TRUE(has_memory());
  EXPECT_FALSE(timer_runs());
  EXPECT_EQ(device_.parts().grants.count(), 0u);
  EXPECT_EQ(device_.parts().channels.budget().count(), 1u);
  EXPECT_FALSE(device_.parts().faults.poll());
}

TEST_F(ShmFacedControlPath, MemoryOfADomainWithoutQueuePairIsGivenBack) {
  ControlMessage message = announcement(1);
  message.domain = DomainId(kTheirDomain.value + 1);
  send_grant(kPeer, 1);
  take_arrivals();
  far_->say(message);
  turn();
  EXPECT_EQ(device_.parts().grants.count(), 0u);
  EXPECT_EQ(device_.parts().channels.budget().count(), 0u);
  far_->say(message);  // and it is not waited for
  turn();
  EXPECT_FALSE(channel()->awaiting_grant());
}

TEST_F(ShmControlPath, OnlyWhoHasAChannelGrants) {
  FarSide far = send_channel(kPeer, 1);
  take_arrivals();
  send_grant(kOther, 1);
  take_arrivals();
  EXPECT_EQ(device_.parts().grants.count(), 0u);
  const int bell = channel()->bell();
  far.end();
  device_.handle_readable(bell);  // what it has sent before is still looked at
  send_grant(kPeer, 1);
  take_arrivals();
  EXPECT_EQ(device_.parts().grants.count(), 0u);
  EXPECT_EQ(device_.parts().channels.budget().count(), 0u);
  EXPECT_FALSE(device_.parts().faults.poll());
}

// A peer whose connector is full waits until the device has read.
TEST_F(ShmFacedControlPath, WhoGrantsIsToldThatItHasBeenRead) {
  EXPECT_TRUE(sleeps());
  far_->channel().fall_asleep(true);
  send_grant(kPeer, 1);
  take_arrivals();
  EXPECT_FALSE(far_->channel().was_rung());
  device_.ring_doorbells();
  EXPECT_TRUE(far_->channel().was_rung());
}

TEST_F(ShmControlPath, HandlesNoMoreThanItIsAskedTo) {
  FarSide far = send_channel(kPeer, 1);
  take_arrivals();
  for (int i = 0; i < 5; ++i) far.say({.kind = Kind::kWithdraw, .rkey = RemoteKey(1)});
  EXPECT_EQ(control_.handle(*channel(), 2), 2);
  EXPECT_EQ(far.memory().controls[0].head.load(), 2u);
  EXPECT_EQ(control_.handle(*channel(), 64), 3);
  EXPECT_EQ(control_.handle(*channel(), 64), 0);
}

// A peer may wait for room in its control ring.
TEST_F(ShmFacedControlPath, WhoTellsSomethingIsToldThatItHasBeenRead) {
  for (const bool something : {false, true}) {
    EXPECT_TRUE(sleeps());
    far_->channel().fall_asleep(true);
    if (something) far_->channel().send({.kind = Kind::kWithdraw, .rkey = RemoteKey(1)});
    (void)queue_pair_->remote_memory(kTheirMemory, 1);  // reads what has been told
    device_.ring_doorbells();
    EXPECT_EQ(far_->channel().was_rung(), something);
  }
}

// Only the channels of the peer that is asked for are read.
TEST_F(ShmControlPath, WhoAsksForOnePeerReadsNoOther) {
  const auto queue_pair = make_queue_pair();
  FarSide other = send_channel(kOther, 1), far = send_channel(kPeer, 1);
  take_arrivals();
  turn();
  for (FarSide* side : {&other, &far}) side->say({.kind = Kind::kWithdraw, .rkey = RemoteKey(1)});
  ASSERT_TRUE(connect(*queue_pair));
  EXPECT_EQ(far.memory().controls[0].head.load(), 1u);
  EXPECT_EQ(other.memory().controls[0].head.load(), 0u);
}

TEST_F(ShmFacedControlPath, WhoAsksForMemoryLearnsThatThePeerHasGone) {
  EXPECT_TRUE(sleeps());
  far_->put(queue_pair_->number(), kTheirs);
  far_->say({.kind = Kind::kWithdraw, .rkey = RemoteKey(1)});
  far_->end();
  EXPECT_FALSE(knows_memory(*queue_pair_));
  EXPECT_TRUE(device_.pending());
  turn();
  EXPECT_EQ(received_.size(), 1u);
  EXPECT_TRUE(has_fatal(*queue_pair_));
}

// One event of a bell can stand for both.
TEST_F(ShmFacedControlPath, WhoRangAndEndedIsMissedByTheTimer) {
  EXPECT_TRUE(sleeps());
  EXPECT_FALSE(timer_runs());
  const int bell = channel()->bell();
  far_->put(queue_pair_->number(), kTheirs);
  far_->end();
  device_.handle_readable(bell);
  EXPECT_TRUE(sleeps());
  EXPECT_EQ(received_.size(), 1u);
  EXPECT_FALSE(has_fatal(*queue_pair_));
  let_timer_expire();
  EXPECT_TRUE(device_.pending());
  turn();
  EXPECT_TRUE(has_fatal(*queue_pair_));
  expect_timer_stops();
}

TEST_F(ShmFacedControlPath, WhoRangAndLivesIsNotMissed) {
  EXPECT_TRUE(sleeps());
  far_->put(queue_pair_->number(), kTheirs);
  hear_bell();
  EXPECT_TRUE(device_.pending());
  expect_timer_stops();
  turn();
  EXPECT_EQ(received_.size(), 1u);
  EXPECT_FALSE(has_fatal(*queue_pair_));
}

// All that it told is heard first, although nothing of it has been looked at.
TEST_F(ShmControlPath, TheLastWordsOfAPeerAreHeard) {
  const auto queue_pair = make_queue_pair();
  FarSide far = send_channel(kPeer, 1);
  ASSERT_TRUE(connect(*queue_pair));
  turn();
  for (std::uint64_t i = 0; i + 1 < kControlSlots; ++i)
    far.say({.kind = Kind::kWithdraw, .rkey = RemoteKey(1)});
  far.say(ready_for(*queue_pair));
  far.put(queue_pair->number(), kTheirs);
  const int bell = channel()->bell();
  far.end();
  device_.handle_readable(bell);
  turn();
  EXPECT_EQ(received_.size(), 1u);
  EXPECT_TRUE(has_fatal(*queue_pair));
}

TEST_F(ShmFacedControlPath, AnswersThatWaitAreSentWhenThereIsRoom) {
  EXPECT_FALSE(timer_runs());
  make_answers_wait(*far_, 3);
  EXPECT_TRUE(timer_runs());
  let_timer_expire();
  EXPECT_TRUE(timer_runs());
  EXPECT_EQ(hear_all(*far_), kControlSlots);
  let_timer_expire();
  EXPECT_TRUE(channel()->control_flushed());
  EXPECT_EQ(hear_all(*far_), 3u);
  expect_timer_stops();
  EXPECT_FALSE(device_.parts().faults.poll());
}

TEST_F(ShmFacedControlPath, AnswersThatWaitAreSentByDoorbells) {
  make_answers_wait(*far_, 3);
  hear_all(*far_);
  far_->channel().fall_asleep(false);
  device_.ring_doorbells();
  EXPECT_EQ(hear_all(*far_), 3u);
  EXPECT_TRUE(far_->channel().was_rung());
}

TEST_F(ShmFacedControlPath, WhoTakesNoControlMessagesIsGivenUpInTime) {
  make_answers_wait(*far_, 1);
  EXPECT_TRUE(control_.check_waits(in(kForever / 2)));
  turn();
  EXPECT_FALSE(has_fatal(*queue_pair_));
  EXPECT_TRUE(control_.check_waits(in(kForever)));
  EXPECT_TRUE(far_->is_shut_out());
  turn();
  EXPECT_TRUE(has_fatal(*queue_pair_));
  expect_fault(Errc::kExhausted);
  EXPECT_FALSE(control_.check_waits(in(2 * kForever)));
}

// Not before it is seen that nothing has been taken.
TEST_F(ShmFacedControlPath, WhoTakesControlMessagesAtLastIsNotGivenUp) {
  make_answers_wait(*far_, 1);
  hear_all(*far_);
  EXPECT_TRUE(control_.check_waits(in(2 * kForever)));
  EXPECT_EQ(hear_all(*far_), 1u);
  turn();
  EXPECT_FALSE(has_fatal(*queue_pair_));
  EXPECT_FALSE(control_.check_waits(in(2 * kForever)));
}

// It has not rung: the device finds out when it wants to send, or looks whether it can.
TEST_F(ShmControlPath, WhoClaimsToHaveTakenTooMuchIsGivenUp) {
  for (const bool by_timer : {true, false}) {
    const auto queue_pair = make_queue_pair();
    FarSide far = face(*queue_pair);
    make_answers_wait(far, 1);
    EXPECT_TRUE(sleeps());
    far.memory().controls[1].head = 1000;
    if (by_timer)
      (void)control_.check_waits(in({}));
    else
      device_.ring_doorbells();
    EXPECT_TRUE(device_.pending());
    turn();
    EXPECT_TRUE(has_fatal(*queue_pair));
    EXPECT_TRUE(far.is_shut_out());
  }
}

TEST_F(ShmFacedControlPath, TooManyAnswersThatWaitAreAFault) {
  const std::uint32_t users = channel()->users();
  make_answers_wait(*far_, kAnswersWaitingMax + users);
  EXPECT_FALSE(device_.parts().faults.poll());
  far_->say(ready_for(*queue_pair_, kTheirSecond));  // it faces another one
  turn();
  expect_fault(Errc::kExhausted);
  EXPECT_TRUE(device_.pending());
  turn();
  EXPECT_TRUE(has_fatal(*queue_pair_));
}

TEST_F(ShmFacedControlPath, NonsenseEndsTheChannelAtOnce) {
  far_->say(ready_for(*queue_pair_));  // once more
  turn();
  EXPECT_TRUE(far_->is_shut_out());
  EXPECT_TRUE(has_fatal(*queue_pair_));
  expect_fault(Errc::kMalformed);
  EXPECT_FALSE(device_.parts().faults.poll());
}

// The answer names both queue pairs, so that the peer finds its own.
TEST_F(ShmControlPath, WhoNamesAQueuePairThatIsNotThereIsTold) {
  FarSide far = send_channel(kPeer, 1);
  take_arrivals();
  EXPECT_TRUE(sleeps());
  far.channel().fall_asleep(false);
  far.say({.kind = Kind::kQueuePairReady, .source = kTheirs, .destination = QpNumber(0x1234)});
  hear_bell();
  turn();
  device_.ring_doorbells();
  const auto heard = far.hear();
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->kind, Kind::kQueuePairGone);
  EXPECT_EQ(heard->source, QpNumber(0x1234));
  EXPECT_EQ(heard->destination, kTheirs);
  EXPECT_TRUE(far.channel().was_rung());
}

// Nobody has heard its bell: the device finds out when it asks for memory.
TEST_F(ShmFacedControlPath, WhatWasSentBeforeTheSenderLeftArrives) {
  EXPECT_TRUE(sleeps());
  far_->put(queue_pair_->number(), kTheirs);
  far_->say(gone_for(*queue_pair_));
  EXPECT_FALSE(device_.pending());
  EXPECT_EQ(queue_pair_->remote_memory(kTheirMemory, 1).error().code, Errc::kNotFound);
  EXPECT_TRUE(device_.pending());
  turn();
  EXPECT_EQ(received_.size(), 1u);
  EXPECT_TRUE(has_fatal(*queue_pair_));
  EXPECT_EQ(channel()->remote().queue_pair_count(), 0u);
  EXPECT_FALSE(far_->is_shut_out());
  EXPECT_TRUE(sleeps());
}

TEST_F(ShmFacedControlPath, WhoLeavesNamesBothEnds) {
  far_->say(gone_for(*queue_pair_, kTheirSecond));
  far_->say({.kind = Kind::kQueuePairGone, .source = kTheirs, .destination = QpNumber(0x1234)});
  turn();
  EXPECT_FALSE(has_fatal(*queue_pair_));
  EXPECT_EQ(channel()->remote().queue_pair_count(), 1u);
  far_->put(queue_pair_->number(), kTheirs);
  turn();
  EXPECT_EQ(received_.size(), 1u);
}

TEST_F(ShmFacedControlPath, AViewOfAWithdrawnBufferGoesWithItsQueuePair) {
  send_grant(kPeer, 1);
  far_->say(announcement(1));
  const auto view = queue_pair_->remote_memory(kTheirMemory, 4096);
  ASSERT_TRUE(view);
  far_->say({.kind = Kind::kWithdraw, .rkey = kTheirMemory.rkey});
  turn();
  view->front() = std::byte{1};
  EXPECT_EQ(device_.parts().channels.budget().count(), 1u);
  queue_pair_.reset();
  EXPECT_EQ(device_.parts().channels.budget().count(), 0u);
  EXPECT_FALSE(far_->is_shut_out());
}

}  // namespace
}  // namespace fairlead::rdma::shm
