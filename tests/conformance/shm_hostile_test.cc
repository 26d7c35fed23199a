// Misbehaving peers of the shared-memory device; see shm_hostile_test.h for goal and method.
#include <gtest/gtest.h>

#include <functional>

#include "conformance/shm_hostile_test.h"

namespace fairlead::rdma::shm {
namespace {

TEST_F(ShmHostile, TailsThatCannotBe) {
  const std::function<void()> lies[] = {
      [&] { fake_->out().tail = kRingSlots + 1; },
      [&] { fake_->control_out().tail = fake_->control_tail + kControlSlots + 1; },
      [&] { fake_->control_out().tail = 0; },  // backwards
  };
  for (const auto& lie : lies) {
    face_fake();
    lie();
    fake_->ring_bell();
    expect_given_up();
  }
}

TEST_F(ShmHostile, MessageOfALengthThatCannotBe) {
  const struct {
    std::uint64_t length, tail;
  } cases[] = {{0, 1},
               {49, 1},  // reaches past the tail
               {kMessageBytesMax + 1, kRingSlots},
               {~std::uint64_t{0}, 1}};
  for (const auto& one : cases) {
    face_fake();
    fake_->put(facing_->number(), kFakeQp, one.length);
    fake_->out().tail = one.tail;
    expect_given_up();
  }
}

TEST_F(ShmHostile, TailThatRunsBackwards) {
  face_fake();
  fake_->put(facing_->number(), kFakeQp, 10);
  run();
  EXPECT_EQ(victim_->received.size(), 1u);
  fake_->out().tail = 0;
  expect_given_up();
}

// A tail that is wrong only while control messages are handled must not become a position to wait
// for.
TEST_F(ShmHostile, TailThatLiesWhileAQueuePairLeaves) {
  for (const std::uint64_t lie : {kRingSlots, kRingSlots + 1, ~std::uint64_t{0}}) {
    face_fake();
    fake_->out().tail = fake_->tail + lie;
    say(*fake_, Kind::kQueuePairGone, *facing_);
    (void)facing_->remote_memory({RemoteKey(1), RemoteAddress(0x10000)}, 1);
    fake_->out().tail = fake_->tail;
    run();
    EXPECT_FALSE(device_->pending());
    expect_given_up();
  }
}

// After the end of a channel, only messages that were already in its ring are handled.
TEST_F(ShmHostile, MessagesAfterTheEndOfTheirChannel) {
  constexpr int kAhead = 100, kEachTurn = 8, kTurnsMax = 100;
  face_fake();
  for (int i = 0; i < kAhead; ++i) fake_->put(facing_->number(), kFakeQp, 44);
  fake_->ring.reset();
  fake_->watch.reset();
  for (int turn = 0; turn < kTurnsMax && !victim_->has_fatal(*facing_); ++turn) {
    victim_->watcher().wait(*device_, 0);
    for (int i = 0; i < kEachTurn; ++i) fake_->put(facing_->number(), kFakeQp, 44);
    victim_->turn();
  }
  EXPECT_TRUE(victim_->has_fatal(*facing_));
  EXPECT_LE(victim_->received.size(), std::size_t{kAhead + 2 * kEachTurn});
}

TEST_F(ShmHostile, HeadBeyondWhatWasSent) {
  face_fake();
  ASSERT_TRUE(post(*facing_, send_request(std::span(kAnyMessage), true)));
  fake_->in().head = std::uint64_t{1} << 60;
  expect_given_up();
  ASSERT_EQ(victim_->sent(*facing_).size(), 1u);
  EXPECT_EQ(victim_->sent(*facing_)[0].status, CompletionStatus::kRetryExceeded);
}

TEST_F(ShmHostile, HeadThatRunsBackwards) {
  face_fake();
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(post(*facing_, send_request(std::span(kAnyMessage), true)));
  fake_->in().head = 2;
  run();
  EXPECT_EQ(victim_->sent(*facing_).size(), 2u);
  fake_->in().head = 1;
  expect_given_up();
}

// The peer takes it back before the device looks at the index again.
TEST_F(ShmHostile, HeadThatLiesWhileAMessageFindsNoRoom) {
  face_fake();
  while (facing_->send_room() != 0)
    ASSERT_TRUE(post(*facing_, send_request(std::span(kAnyMessage), true)));
  fake_->in().head = std::uint64_t{1} << 60;
  EXPECT_EQ(post(*facing_, send_request(std::span(kAnyMessage))).error().code, Errc::kWrongState);
  fake_->in().head = 0;
  expect_given_up();
}

// All slots of the ring are of use, those that were never used and those that the peer gave back.
TEST_F(ShmHostile, MessageThatFitsTheRingExactlyIsTaken) {
  constexpr std::uint64_t kWhole = kRingSlots / kSlotsPerMessageMax;
  constexpr std::size_t kRest =
      (kRingSlots - kWhole * kSlotsPerMessageMax) * kSlotBytes - kHeaderBytes;
  face_fake();
  const Bytes message = pattern(kMessageBytesMax, 1);
  for (std::uint64_t i = 0; i < kWhole; ++i)
    ASSERT_TRUE(post(*facing_, send_request(message, true)));
  ASSERT_TRUE(post(*facing_, send_request(std::span(message).first(kRest), true)));
  EXPECT_EQ(post(*facing_, send_request(std::span(kAnyMessage))).error().code, Errc::kExhausted);
  fake_->in().head = kSlotsPerMessageMax;
  EXPECT_TRUE(post(*facing_, send_request(message, true)));
  expect_unmoved();
}

// What had arrived before the peer left stays so, also if nobody had room for its completion.
TEST_F(ShmHostile, WhatHadArrivedBeforeThePeerLeftHasSucceeded) {
  face_fake();
  for (std::uint64_t id = 1; id <= 4; ++id)
    ASSERT_TRUE(post(*facing_, send_request(std::span(kAnyMessage), true, id)));
  fake_->in().head = 3;
  Completion first;
  ASSERT_EQ(device_->poll(std::span(&first, 1)), 1u);
  EXPECT_EQ(first.id, WorkId(1));
  say(*fake_, Kind::kQueuePairGone, *facing_);
  run();
  const std::vector<Completion> sent = victim_->sent(*facing_);
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(sent[1].status, CompletionStatus::kSuccess);
  EXPECT_EQ(sent[2].status, CompletionStatus::kRetryExceeded);
  EXPECT_TRUE(victim_->has_fatal(*facing_));
}

TEST_F(ShmHostile, MessageForAQueuePairThatIsNot) {
  face_fake();
  fake_->put(QpNumber(0xffffffff), kFakeQp, 44);
  run();
  bool refused = false;
  while (auto heard = fake_->hear())
    refused |= heard->kind == Kind::kQueuePairGone && heard->source == QpNumber(0xffffffff) &&
               heard->destination == kFakeQp;
  EXPECT_TRUE(refused);
  expect_unmoved();
}

TEST_F(ShmHostile, MessageForSomebodyElsesQueuePair) {
  face_fake();
  fake_->put(ours_->number(), kFakeQp, 44);
  fake_->put(ours_->number(), theirs_->number(), 44);
  run();
  EXPECT_TRUE(victim_->received.empty());
  expect_unmoved();
}

// Another peer uses the number of the queue pair that is expected, and is the first to speak.
TEST_F(ShmHostile, WhoSpeaksForTheOtherEndOfAnotherIsRefused) {
  fake_->open_channel(peer_id(1));
  facing_ = &victim_->add_queue_pair();
  ASSERT_TRUE(facing_->connect(end_of(*fake_)));
  FakePeer other(fabric_, 10);
  other.open_channel(peer_id(1));
  for (FakePeer* peer : {&other, fake_.get()}) {
    say(*peer, Kind::kQueuePairReady, *facing_);
    peer->put(facing_->number(), kFakeQp, 44);
    run();
    EXPECT_EQ(victim_->received.size(), peer == &other ? 0u : 1u);
  }
  EXPECT_TRUE(hears_refusal(other));
  expect_unmoved();
}

TEST_F(ShmHostile, EndOfSomebodyElsesQueuePair) {
  face_fake();
  say(*fake_, Kind::kQueuePairGone, *ours_, theirs_->number());
  say(*fake_, Kind::kQueuePairReady, *ours_, theirs_->number());
  expect_unmoved();
}

TEST_F(ShmHostile, FalseNameOnASecondChannelDoesNotReachTheFirst) {
  fake_->open_channel_as(peer_id(1), peer_id(2));
  say(*fake_, Kind::kQueuePairReady, *ours_, theirs_->number());
  say(*fake_, Kind::kQueuePairGone, *ours_, theirs_->number());
  fake_->put(ours_->number(), theirs_->number(), 44);
  run();
  EXPECT_TRUE(victim_->received.empty());
  EXPECT_FALSE(victim_->has_fatal(*ours_));
}

TEST_F(ShmHostile, BufferOfAnotherKindOfMemory) {
  FileDescriptor kinds[] = {
      FileDescriptor(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
      FileDescriptor(::memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB)),
      FileDescriptor(::open("/dev/null", O_RDWR | O_CLOEXEC))};
  ASSERT_EQ(::ftruncate(kinds[0].get(), 8192), 0);
  if (kinds[1]) {  // the kernel has huge pages
    ASSERT_EQ(::ftruncate(kinds[1].get(), 2 << 20), 0);
    ASSERT_EQ(::fcntl(kinds[1].get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  }
  for (const FileDescriptor& kind : kinds) {
    if (!kind) continue;
    face_fake();
    offer(announcement(4096), kind.get());
    expect_memory_refused();
  }
}

TEST_F(ShmHostile, BufferSmallerThanItSays) {
  face_fake();
  FileDescriptor small = memory_of(4096);
  offer(announcement(8192), small.get());
  expect_given_up();
}

TEST_F(ShmHostile, BufferAnnouncedTwice) {
  face_fake();
  FileDescriptor segment = memory_of(4096);
  offer(announcement(4096), segment.get());
  offer(announcement(4096), segment.get());
  expect_given_up();
}

TEST_F(ShmHostile, HolesPunchedIntoABufferInUse) {
  face_fake();
  FileDescriptor segment = memory_of(1 << 16);
  offer(announcement(1 << 16), segment.get());
  run();
  auto view = facing_->remote_memory({RemoteKey(1), RemoteAddress(0x10000)}, 1 << 16);
  ASSERT_TRUE(view);
  for (int i = 0; i < 4; ++i) {
    std::memset(view->data(), i, view->size());
    ASSERT_EQ(::fallocate(segment.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 16),
              0);
  }
  expect_unmoved();
}

}  // namespace
}  // namespace fairlead::rdma::shm
