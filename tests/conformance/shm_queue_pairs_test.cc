// Queue pairs of the shared-memory device one by one: room, completions, what is waited for, and
// what a queue pair leaves behind. Then how a device serves their channels and receive queues:
// turns, and messages that have to wait. The other end is a fake peer that takes only what the test
// says.
#include <algorithm>
#include <numeric>
#include <vector>

#include "base/linux/descriptors.h"
#include "conformance/shm_hostile_test.h"

namespace fairlead::rdma::shm {
namespace {

class ShmQueuePairs : public ShmHostile {
 protected:
  QueuePair& face(std::uint32_t send_requests) {
    face_fake(send_requests);
    return *facing_;
  }
  // What the device has asked this peer to be woken by.
  std::uint64_t wish() { return fake_->memory().sides[1].sleeping; }
  std::uint64_t wish_when_asleep() {
    EXPECT_TRUE(device_->arm());
    const std::uint64_t asked = wish();
    device_->disarm();
    return asked;
  }
  // With room for one.
  Completion poll_one() {
    Completion into[2];
    into[1].id = WorkId(99);
    EXPECT_EQ(device_->poll(std::span(into, 1)), 1u);
    EXPECT_EQ(into[1].id, WorkId(99));
    return into[0];
  }
  void expect_nothing() {
    Completion one;
    EXPECT_EQ(device_->poll(std::span(&one, 1)), 0u);
    EXPECT_FALSE(device_->pending());
  }
  std::vector<CompletionStatus> statuses() {
    std::vector<CompletionStatus> all;
    for (const Completion& one : victim_->sent(*facing_)) all.push_back(one.status);
    return all;
  }
};

constexpr auto kSuccess = CompletionStatus::kSuccess, kFlushed = CompletionStatus::kFlushed;

TEST_F(ShmQueuePairs, RoomIsKnownAsSoonAsThePeerHasTakenShortOrLongMessages) {
  QueuePair& sender = face(kSendRequestsMax);
  std::uint64_t posted = 0;
  for (; sender.send_room() != 0; ++posted) ASSERT_TRUE(post(sender, any_send()));
  EXPECT_EQ(posted, kRingSlots - (kSlotsPerMessageMax - 1));
  fake_->in().head = 100;
  EXPECT_EQ(sender.send_room(), 100u);

  constexpr std::uint32_t kRequests = 64, kLong = kRingSlots / kSlotsPerMessageMax;
  QueuePair& of_long = face(kRequests);
  const Bytes message = pattern(kMessageBytesMax, 1);
  for (std::uint32_t i = 0; i < kLong; ++i) ASSERT_TRUE(post(of_long, send_request(message)));
  EXPECT_EQ(of_long.send_room(), 0u);
  fake_->in().head = kLong * kSlotsPerMessageMax;
  EXPECT_EQ(of_long.send_room(), kRequests - kLong);
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
TEST_F(ShmQueuePairs, ABlockedSenderIsWokenByRoomAfterItHasFoundNone) {
  constexpr std::uint32_t kRequests = 16;
  for (const bool by_post : {false, true}) {
    SCOPED_TRACE(by_post);
    QueuePair& sender = face(kRequests);
    for (std::uint32_t i = 0; i < kRequests; ++i) ASSERT_TRUE(post(sender, any_send()));
    for (unsigned i = 0; i < 2 * kIdleArmsMax; ++i) {
      ASSERT_TRUE(device_->arm());
      device_->disarm();
    }
    EXPECT_EQ(wish(), kWakeOnMessage);
    if (by_post)
      EXPECT_EQ(post(sender, any_send()).error().code, Errc::kExhausted);
    else
      EXPECT_EQ(sender.send_room(), 0u);
    ASSERT_TRUE(device_->arm());
    EXPECT_EQ(wish(), kWakeOnMessage | kWakeOnProgress);
    fake_->in().head = kRequests;
    fake_->memory().sides[1].sleeping = 0;  // the peer wakes the device, as it has asked for
    fake_->ring_bell();
    EXPECT_GT(victim_->watcher().wait(*device_, 10'000), 0);
    device_->disarm();
    EXPECT_TRUE(device_->pending());
    run();
    EXPECT_EQ(sender.send_room(), kRequests);
    EXPECT_EQ(wish_when_asleep(), kWakeOnMessage);
  }
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
  ASSERT_EQ(statuses(), (std::vector{kSuccess, kFlushed, kFlushed}));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(victim_->sent(*facing_)[i].id, WorkId(i + 2));
}

// That stays so also if nobody had room for its completion.
TEST_F(ShmQueuePairs, WhatHadArrivedBeforeThePeerLeftHasSucceeded) {
  face_fake();
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(post(*facing_, any_send(true, id)));
  fake_->in().head = 3;
  EXPECT_EQ(poll_one().id, WorkId(1));
  say(*fake_, Kind::kQueuePairGone, *facing_);
  run();
  EXPECT_EQ(statuses(), (std::vector{kSuccess, kSuccess, CompletionStatus::kRetryExceeded}));
  EXPECT_TRUE(victim_->has_fatal(*facing_));
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

TEST_F(ShmQueuePairs, CompletionsComeAsThereIsRoomForThem) {
  for (const bool fails : {false, true}) {
    face_fake();
    for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(post(*facing_, any_send(!fails, id)));
    fake_->in().head = fails ? 0 : 5;
    if (fails) facing_->fail();
    for (std::uint64_t id = 1; id <= 5; ++id) {
      EXPECT_TRUE(device_->pending()) << id;
      const Completion one = poll_one();
      EXPECT_EQ(one.id, WorkId(id));
      EXPECT_EQ(one.status, fails ? kFlushed : kSuccess) << id;
    }
    expect_nothing();
  }
}

TEST_F(ShmQueuePairs, MessagesComeAsThereIsRoomForThem) {
  face_fake();
  for (int i = 0; i < 5; ++i) fake_->put(facing_->number(), kFakeQp, 44);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    EXPECT_EQ(poll_one().kind, Completion::Kind::kReceive);
    EXPECT_EQ(fake_->out().head, i);
  }
  expect_nothing();
}

class ShmMessages : public ShmQueuePairs {
 protected:
  // As face_fake(), without receive requests.
  void face_fake_unready() {
    unready_ = std::move(device_->create_shared_receive_queue(victim_->domain(), kUnready).value());
    face_fake(64, unready_.get());
  }

  static constexpr std::uint32_t kUnready = 8;
  std::unique_ptr<SharedReceiveQueue> unready_;
};

// A channel without traffic is left asleep in the end: only its bell makes the device look again.
TEST_F(ShmMessages, AChannelOverWhichMessagesComeOrGoIsLookedAt) {
  const auto arm = [&](unsigned times) {
    for (unsigned i = 0; i < times; ++i) {
      ASSERT_TRUE(device_->arm());
      device_->disarm();
    }
  };
  for (const bool come : {true, false}) {
    SCOPED_TRACE(come);
    face_fake();
    for (int i = 0; i < 4 && !come; ++i) ASSERT_TRUE(post(*facing_, any_send(true)));
    for (int round = 0; round < 4; ++round) {
      arm(kIdleArmsMax / 2);
      EXPECT_EQ(wish(), 0u) << round;
      if (come)
        fake_->put(facing_->number(), kFakeQp, 44);
      else
        ++fake_->in().head;
      victim_->turn();
    }
    arm(kIdleArmsMax);
    EXPECT_NE(wish(), 0u);
    EXPECT_EQ(victim_->received.size(), 4u);
    EXPECT_EQ(victim_->sent(*facing_).size(), come ? 0u : 4u);
  }
}

// More channels than one turn can serve, however many control messages they bring.
TEST_F(ShmMessages, ChannelsThatGotNoTurnAreFirstInTheNext) {
  constexpr std::size_t kPeers = 100;
  constexpr std::uint64_t kEach = 200;
  static_assert(kPeers * kControlBatchMin > kControlPerPollMax && kEach < kControlSlots);
  raise_descriptor_limit();
  std::vector<std::unique_ptr<FakePeer>> peers;
  for (std::size_t i = 0; i < kPeers; ++i) {
    peers.push_back(std::make_unique<FakePeer>(fabric_, static_cast<std::uint8_t>(20 + i)));
    say(*peers.back(), Kind::kQueuePairReady, connect_to(*peers.back()));
    run();
  }
  for (std::uint64_t i = 0; i < kEach; ++i)
    for (const auto& peer : peers) peer->say({.kind = Kind::kWithdraw, .rkey = RemoteKey(7)});
  std::uint64_t before = kPeers;  // has been handled of all: that each queue pair is ready
  for (int turn = 1; turn < 10; ++turn) {
    victim_->turn();
    std::vector<std::uint64_t> handled;
    for (const auto& peer : peers) handled.push_back(peer->control_out().head.load());
    const auto [least, most] = std::minmax_element(handled.begin(), handled.end());
    EXPECT_LE(*most - *least, std::uint64_t{kControlBatchMin}) << turn;
    EXPECT_LE(*most, kEach);
    const auto all = std::accumulate(handled.begin(), handled.end(), std::uint64_t{0});
    EXPECT_LE(all - before, std::uint64_t{kControlPerPollMax}) << turn;
    before = all;
  }
  while (device_->pending()) victim_->turn();
}

// The connector reads more than the device takes in one go.
TEST_F(ShmMessages, WhatTheConnectorHasReadIsTakenWithoutAnotherEvent) {
  face_fake();
  const FileDescriptor memory = memory_of(4096);
  for (std::uint64_t number = 1; number <= kArrivalsBatch + 20; ++number)
    ASSERT_TRUE(fake_->grant(number, memory.get()));
  victim_->watcher().wait(*device_, 0);
  EXPECT_TRUE(device_->pending());
  for (int turn = 0; turn < 4; ++turn) victim_->turn();
  EXPECT_FALSE(device_->pending());
}

TEST_F(ShmMessages, AMessageDoesNotOvertakeWhatItsSenderHasToldBefore) {
  facing_ = &connect_to(*fake_);
  // More than one turn takes.
  for (int i = 0; i < 2 * kControlBatch; ++i)
    fake_->say({.kind = Kind::kWithdraw, .rkey = RemoteKey(7)});
  say(*fake_, Kind::kQueuePairReady, *facing_);
  fake_->put(facing_->number(), kFakeQp, 44);
  victim_->turn();
  EXPECT_TRUE(device_->pending());
  run();
  EXPECT_EQ(victim_->received.size(), 1u);
  EXPECT_FALSE(hears_refusal(*fake_, facing_->number(), kFakeQp));
}

TEST_F(ShmMessages, WhatIsToldAfterTheEndOfAChannelDoesNotKeepIt) {
  face_fake();
  fake_->ring.reset();
  fake_->watch.reset();
  victim_->watcher().wait(*device_, 0);
  fake_->control_out().tail = fake_->control_tail + 1;
  run();
  EXPECT_TRUE(victim_->has_fatal(*facing_));
  EXPECT_FALSE(device_->pending());
}

TEST_F(ShmMessages, MessagesForNoQueuePairOrAnUnconnectedOneOfAnotherAreRefused) {
  face_fake();
  const QueuePair& waiting = victim_->add_queue_pair();
  const QpNumber nobody(0xffffffff);
  for (const auto& [to, source] : {std::pair(waiting.number(), kFakeQp),
                                   {waiting.number(), QpNumber(77)},
                                   {nobody, kFakeQp}}) {
    fake_->put(to, source, 44);
    run();
    EXPECT_TRUE(hears_refusal(*fake_, to, source)) << to.value;
  }
  fake_->put(facing_->number(), kFakeQp, 44);
  run();
  EXPECT_EQ(victim_->received.size(), 1u);
  expect_unmoved();
}

TEST_F(ShmMessages, AMessageThatNobodyCanTakeDoesNotHideThatItsSenderLeft) {
  for (const bool channel_ends : {false, true}) {
    face_fake_unready();
    fake_->put(facing_->number(), kFakeQp, 44);
    run();
    EXPECT_FALSE(victim_->has_fatal(*facing_));
    EXPECT_FALSE(device_->pending());
    if (channel_ends)
      fake_->close_channel();
    else
      say(*fake_, Kind::kQueuePairGone, *facing_);
    run();
    EXPECT_TRUE(victim_->has_fatal(*facing_));
    EXPECT_TRUE(victim_->received.empty());
    EXPECT_TRUE(channel_ends || !fake_->is_shut_out());
    EXPECT_FALSE(device_->pending());
    victim_->queue_pairs.pop_back();
  }
}

TEST_F(ShmMessages, TheLimitOfAReceiveQueueIsToldAtOnceWhenFewerAreLeft) {
  face_fake_unready();
  EXPECT_EQ(unready_->arm_limit(kUnready + 1).error().code, Errc::kExhausted);
  EXPECT_FALSE(device_->poll_async_event());
  ASSERT_TRUE(unready_->arm_limit(kUnready));
  const auto event = device_->poll_async_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, AsyncEvent::Kind::kReceiveLimit);
  const auto buffer =
      std::move(device_->allocate_buffer(victim_->domain(), 4096, BufferUse::kMessages).value());
  const std::vector<ReceiveRequest> receives(kUnready, {WorkId(1), buffer.get(), 0, 44});
  ASSERT_TRUE(unready_->post(receives));
  EXPECT_EQ(unready_->post(std::span(receives).first(1)).error().code, Errc::kExhausted);
  ASSERT_TRUE(unready_->arm_limit(kUnready));
  EXPECT_FALSE(device_->poll_async_event());
  ASSERT_TRUE(unready_->arm_limit(0));
  fake_->put(facing_->number(), kFakeQp, 44);
  Completion one;
  ASSERT_EQ(device_->poll(std::span(&one, 1)), 1u);
  EXPECT_EQ(one.length_bytes, 44u);
  EXPECT_FALSE(device_->poll_async_event());
}

}  // namespace
}  // namespace fairlead::rdma::shm
