// Queue pairs of the shared-memory device one by one: room, completions, what is waited for, and
// what a queue pair leaves behind. The other end is a fake peer that takes only what the test says.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "conformance/shm_hostile_test.h"

namespace fairlead::rdma::shm {
namespace {

class ShmQueuePairs : public ShmHostile {
 protected:
  QueuePair& face(std::uint32_t send_requests) {
    face_fake(send_requests);
    return *facing_;
  }
  static WorkRequest any_send(bool signaled = false, std::uint64_t id = 0) {
    return send_request(std::span(kAnyMessage), signaled, id);
  }
  // What the device has asked this peer to be woken by.
  std::uint64_t wish() { return fake_->memory().sides[1].sleeping; }
  std::uint64_t wish_when_asleep() {
    EXPECT_TRUE(device_->arm());
    const std::uint64_t asked = wish();
    device_->disarm();
    return asked;
  }
  // The peer wakes the device, as it does for what the device has asked for.
  void wake() {
    fake_->memory().sides[1].sleeping = 0;
    fake_->ring_bell();
  }
  std::vector<CompletionStatus> statuses() {
    std::vector<CompletionStatus> all;
    for (const Completion& one : victim_->sent(*facing_)) all.push_back(one.status);
    return all;
  }
};

constexpr auto kSuccess = CompletionStatus::kSuccess, kFlushed = CompletionStatus::kFlushed;

TEST_F(ShmQueuePairs, RoomIsKnownAsSoonAsThePeerHasTakenMessages) {
  QueuePair& sender = face(kSendRequestsMax);
  std::uint64_t posted = 0;
  for (; sender.send_room() != 0; ++posted) ASSERT_TRUE(post(sender, any_send()));
  EXPECT_EQ(posted, kRingSlots - (kSlotsPerMessageMax - 1));
  fake_->in().head = 100;
  EXPECT_EQ(sender.send_room(), 100u);
}

TEST_F(ShmQueuePairs, RoomIsKnownAsSoonAsThePeerHasTakenLongMessages) {
  constexpr std::uint32_t kRequests = 64, kLong = kRingSlots / kSlotsPerMessageMax;
  QueuePair& sender = face(kRequests);
  const Bytes message = pattern(kMessageBytesMax, 1);
  for (std::uint32_t i = 0; i < kLong; ++i) ASSERT_TRUE(post(sender, send_request(message)));
  EXPECT_EQ(sender.send_room(), 0u);
  fake_->in().head = kLong * kSlotsPerMessageMax;
  EXPECT_EQ(sender.send_room(), kRequests - kLong);
}

TEST_F(ShmQueuePairs, UnsignaledRequestsThatArrivedMakeRoomForAPost) {
  constexpr std::uint32_t kRequests = 16;
  QueuePair& sender = face(kRequests);
  const std::vector<WorkRequest> chain(kRequests, any_send());
  ASSERT_TRUE(sender.post(chain));
  EXPECT_EQ(post(sender, any_send()).error().code, Errc::kExhausted);
  fake_->in().head = kRequests;
  EXPECT_TRUE(sender.post(chain));
}

TEST_F(ShmQueuePairs, SignaledRequestsKeepTheirRoomUntilTheirCompletionIsPolled) {
  QueuePair& sender = face(4);
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(post(sender, any_send(id == 2, id)));
  fake_->in().head = 4;
  EXPECT_TRUE(post(sender, any_send()));
  EXPECT_EQ(post(sender, any_send()).error().code, Errc::kExhausted);
  EXPECT_EQ(sender.send_room(), 0u);
  run();
  ASSERT_EQ(statuses(), std::vector{kSuccess});
  EXPECT_EQ(victim_->sent(sender)[0].id, WorkId(2));
  EXPECT_EQ(sender.send_room(), 3u);
}

// The owner of a queue without signaled requests sleeps, and later finds no room.
class ShmBlockedSender : public ShmQueuePairs {
 protected:
  static constexpr std::uint32_t kRequests = 16;
  void expect_woken_by_room(const std::function<void(QueuePair&)>& find_no_room) {
    QueuePair& sender = face(kRequests);
    for (std::uint32_t i = 0; i < kRequests; ++i) ASSERT_TRUE(post(sender, any_send()));
    for (unsigned i = 0; i < 2 * kIdleArmsMax; ++i) {
      ASSERT_TRUE(device_->arm());
      device_->disarm();
    }
    EXPECT_EQ(wish(), kWakeOnMessage);
    find_no_room(sender);
    ASSERT_TRUE(device_->arm());
    EXPECT_EQ(wish(), kWakeOnMessage | kWakeOnProgress);
    fake_->in().head = kRequests;
    wake();
    EXPECT_GT(victim_->watcher().wait(*device_, 10'000), 0);
    device_->disarm();
    EXPECT_TRUE(device_->pending());
    run();
    EXPECT_EQ(sender.send_room(), kRequests);
    EXPECT_EQ(wish_when_asleep(), kWakeOnMessage);
  }
};

TEST_F(ShmBlockedSender, IsWokenByRoomAfterItHasAskedForSome) {
  expect_woken_by_room([](QueuePair& sender) { EXPECT_EQ(sender.send_room(), 0u); });
}

TEST_F(ShmBlockedSender, IsWokenByRoomAfterAPostWasRefused) {
  expect_woken_by_room([](QueuePair& sender) {
    EXPECT_EQ(post(sender, any_send()).error().code, Errc::kExhausted);
  });
}

TEST_F(ShmQueuePairs, WhoHasRoomIsNotWokenByProgress) {
  QueuePair& sender = face(16);
  ASSERT_TRUE(post(sender, any_send()));
  EXPECT_EQ(sender.send_room(), 15u);
  EXPECT_EQ(wish_when_asleep(), kWakeOnMessage);
}

TEST_F(ShmQueuePairs, ProgressWakesAsLongAsCompletionsAreExpected) {
  face_fake();
  for (std::uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(post(*facing_, any_send(true, id)));
  EXPECT_EQ(wish_when_asleep(), kWakeOnMessage | kWakeOnProgress);
  fake_->in().head = 1;
  run();
  EXPECT_EQ(wish_when_asleep(), kWakeOnMessage | kWakeOnProgress);
  fake_->in().head = 2;
  run();
  EXPECT_EQ(statuses(), std::vector(2, kSuccess));
  EXPECT_EQ(wish_when_asleep(), kWakeOnMessage);
}

TEST_F(ShmQueuePairs, NobodyWaitsForRoomOrCompletionsOfAFailedQueuePair) {
  face_fake();
  while (facing_->send_room() != 0) ASSERT_TRUE(post(*facing_, any_send(true)));
  run();
  facing_->fail();
  run();
  EXPECT_EQ(statuses(), std::vector(64, kFlushed));
  EXPECT_EQ(wish_when_asleep(), kWakeOnMessage);
  fake_->in().head = 10;
  EXPECT_FALSE(device_->pending());
  EXPECT_TRUE(device_->arm());
  run();
  EXPECT_EQ(statuses().size(), 64u);
}

// Two send to the same peer, and one of them is destroyed with requests that the peer takes later.
TEST_F(ShmQueuePairs, ADestroyedQueuePairLeavesTheOtherItsCompletions) {
  QueuePair& stays = face(16);
  QueuePair& goes = victim_->add_queue_pair();
  ASSERT_TRUE(goes.connect(end_of(*fake_, QpNumber(kFakeQp.value + 1))));
  const QpNumber gone = goes.number();
  ASSERT_TRUE(post(goes, any_send(true)));
  ASSERT_TRUE(post(stays, any_send(true, 5)));
  victim_->queue_pairs.pop_back();
  fake_->in().head = 2;
  run();
  EXPECT_EQ(statuses(), std::vector{kSuccess});
  for (const Completion& one : victim_->sends) EXPECT_NE(one.queue_pair, gone);
  EXPECT_EQ(wish_when_asleep(), kWakeOnMessage);
}

TEST_F(ShmQueuePairs, FailureTellsWhatHadArrived) {
  face_fake();
  QueuePair& other = victim_->add_queue_pair(PortNumber(1), kSendRequestsMax);
  ASSERT_TRUE(other.connect(end_of(*fake_, QpNumber(kFakeQp.value + 1))));
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(post(*facing_, any_send(id % 2 == 0, id)));
  fake_->in().head = 2;
  facing_->fail();
  fake_->in().head = 4;  // too late, although the device learns it before the next poll
  EXPECT_GT(other.send_room(), 0u);
  run();
  const std::vector<Completion> sent = victim_->sent(*facing_);
  ASSERT_EQ(statuses(), (std::vector{kSuccess, kFlushed, kFlushed}));
  EXPECT_EQ(sent[0].id, WorkId(2));
  EXPECT_EQ(sent[1].id, WorkId(3));
  EXPECT_EQ(sent[2].id, WorkId(4));
}

// The peer may have refused what it took last.
TEST_F(ShmQueuePairs, WhatThePeerTakesWhileItLeavesDoesNotCountAsArrived) {
  face_fake();
  for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(post(*facing_, any_send(true, id)));
  fake_->in().head = 1;
  run();
  fake_->in().head = 3;
  say(*fake_, Kind::kQueuePairGone, *facing_);
  run();
  EXPECT_EQ(statuses(), (std::vector{kSuccess, CompletionStatus::kRetryExceeded, kFlushed}));
}

class ShmOneByOne : public ShmQueuePairs {
 protected:
  // Polls with room for one completion, which has to be of that request.
  void expect_completions(std::uint64_t first, std::uint64_t last, CompletionStatus status) {
    for (std::uint64_t id = first; id <= last; ++id) {
      Completion into[2];
      into[1].id = WorkId(99);
      EXPECT_TRUE(device_->pending()) << id;
      ASSERT_EQ(device_->poll(std::span(into, 1)), 1u);
      EXPECT_EQ(into[0].id, WorkId(id));
      EXPECT_EQ(into[0].status, status) << id;
      EXPECT_EQ(into[1].id, WorkId(99));
    }
  }
  void expect_nothing() {
    Completion one;
    EXPECT_EQ(device_->poll(std::span(&one, 1)), 0u);
    EXPECT_FALSE(device_->pending());
  }
};

TEST_F(ShmOneByOne, CompletionsComeAsThereIsRoomForThem) {
  face_fake();
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(post(*facing_, any_send(true, id)));
  fake_->in().head = 5;
  expect_completions(1, 5, kSuccess);
  expect_nothing();
}

TEST_F(ShmOneByOne, FlushedRequestsComeAsThereIsRoomForThem) {
  face_fake();
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(post(*facing_, any_send(false, id)));
  facing_->fail();
  expect_completions(1, 5, kFlushed);
  expect_nothing();
}

TEST_F(ShmOneByOne, MessagesComeAsThereIsRoomForThem) {
  face_fake();
  for (int i = 0; i < 5; ++i) fake_->put(facing_->number(), kFakeQp, 44);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    Completion into[2];
    into[1].id = WorkId(1000);
    ASSERT_EQ(device_->poll(std::span(into, 1)), 1u);
    EXPECT_EQ(into[0].kind, Completion::Kind::kReceive);
    EXPECT_EQ(into[1].id, WorkId(1000));
    EXPECT_EQ(fake_->out().head, i);
  }
  expect_nothing();
}

}  // namespace
}  // namespace fairlead::rdma::shm
