// Misbehaving peers of the shared-memory device; see shm_hostile_test.h for goal and method.
#include <gtest/gtest.h>

#include "conformance/shm_hostile_test.h"

namespace fairlead::rdma::shm {
namespace {

TEST_F(ShmHostile, TailThatLapsTheRing) {
  face_fake();
  fake_->out().tail = kRingSlots + 1;
  expect_given_up();
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
    fake_->say({.kind = Kind::kQueuePairGone, .source = kFakeQp, .destination = facing_->number()});
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
  fake_->say({.kind = Kind::kQueuePairGone, .source = kFakeQp, .destination = facing_->number()});
  run();
  const std::vector<Completion> sent = victim_->sent(*facing_);
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(sent[1].status, CompletionStatus::kSuccess);
  EXPECT_EQ(sent[2].status, CompletionStatus::kRetryExceeded);
  EXPECT_TRUE(victim_->has_fatal(*facing_));
}

TEST_F(ShmHostile, MessageOfLengthZero) {
  face_fake();
  fake_->put(facing_->number(), kFakeQp, 0);
  expect_given_up();
}

TEST_F(ShmHostile, MessageLongerThanAnyMayBe) {
  face_fake();
  fake_->out().tail = kRingSlots;
  fake_->tail = 0;
  Slot& slot = fake_->out().slots[0];
  slot.words[0] = static_cast<std::uint64_t>(kFakeQp.value) << 32 | facing_->number().value;
  slot.words[1] = kMessageBytesMax + 1;
  expect_given_up();
}

TEST_F(ShmHostile, MessageWithAllBitsInItsLength) {
  face_fake();
  fake_->put(facing_->number(), kFakeQp, ~std::uint64_t{0});
  expect_given_up();
}

TEST_F(ShmHostile, MessageThatReachesPastTheTail) {
  face_fake();
  fake_->put(facing_->number(), kFakeQp, 49);
  expect_given_up();
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
  ASSERT_TRUE(facing_->connect({.gid = fake_->gid(), .queue_pair = kFakeQp}));
  FakePeer other(fabric_, 10);
  other.open_channel(peer_id(1));
  for (FakePeer* peer : {&other, fake_.get()}) {
    peer->say({.kind = Kind::kQueuePairReady,
               .source = kFakeQp,
               .destination = facing_->number(),
               .domain = kFakeDomain});
    peer->put(facing_->number(), kFakeQp, 44);
    run();
    EXPECT_EQ(victim_->received.size(), peer == &other ? 0u : 1u);
  }
  const auto refusal = other.hear();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->kind, Kind::kQueuePairGone);
  expect_unmoved();
}

TEST_F(ShmHostile, EndOfSomebodyElsesQueuePair) {
  face_fake();
  fake_->say(
      {.kind = Kind::kQueuePairGone, .source = theirs_->number(), .destination = ours_->number()});
  fake_->say({.kind = Kind::kQueuePairReady,
              .source = theirs_->number(),
              .destination = ours_->number(),
              .domain = kFakeDomain});
  expect_unmoved();
}

TEST_F(ShmHostile, FalseNameOnASecondChannelDoesNotReachTheFirst) {
  fake_->open_channel_as(peer_id(1), peer_id(2));
  fake_->say({.kind = Kind::kQueuePairReady,
              .source = theirs_->number(),
              .destination = ours_->number(),
              .domain = kFakeDomain});
  fake_->say(
      {.kind = Kind::kQueuePairGone, .source = theirs_->number(), .destination = ours_->number()});
  fake_->put(ours_->number(), theirs_->number(), 44);
  run();
  EXPECT_TRUE(victim_->received.empty());
  EXPECT_FALSE(victim_->has_fatal(*ours_));
}

TEST_F(ShmHostile, BufferThatCouldShrink) {
  face_fake();
  FileDescriptor fd(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(fd.get(), 8192), 0);
  offer(announcement(8192), fd.get());
  expect_memory_refused();
}

TEST_F(ShmHostile, BufferSmallerThanItSays) {
  face_fake();
  FileDescriptor small = memory_of(4096);
  offer(announcement(8192), small.get());
  expect_given_up();
}

TEST_F(ShmHostile, BufferOfAbsurdSize) {
  for (std::uint64_t size :
       {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{kBufferBytesMax} + 1}) {
    face_fake();
    FileDescriptor small = memory_of(4096);
    offer(announcement(size), small.get());
    expect_given_up();
  }
}

TEST_F(ShmHostile, BufferThatIsNoMemfd) {
  face_fake();
  FileDescriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  offer(announcement(4096), null.get());
  expect_memory_refused();
}

TEST_F(ShmHostile, BufferOfHugePages) {
  FileDescriptor huge(::memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!huge) GTEST_SKIP() << "no huge pages in this kernel";
  ASSERT_EQ(::ftruncate(huge.get(), 2 << 20), 0);
  ASSERT_EQ(::fcntl(huge.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  face_fake();
  offer(announcement(4096), huge.get());
  expect_memory_refused();
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

TEST_F(ShmHostile, ViewOfAWithdrawnBufferStaysMemory) {
  face_fake();
  FileDescriptor segment = memory_of(4096);
  offer(announcement(4096), segment.get());
  run();
  auto view = facing_->remote_memory({RemoteKey(1), RemoteAddress(0x10000)}, 4096);
  ASSERT_TRUE(view);
  fake_->say({.kind = Kind::kWithdraw, .rkey = RemoteKey(1)});
  run();
  std::memset(view->data(), 0xff, view->size());
  const Mapping theirs = std::move(Mapping::map(segment.get(), 4096).value());
  EXPECT_EQ(theirs.bytes()[0], std::byte{0});
  EXPECT_FALSE(facing_->remote_memory({RemoteKey(1), RemoteAddress(0x10000)}, 4096));
  expect_unmoved();
}

TEST_F(ShmHostile, MoreBuffersThanAnybodyNeeds) {
  face_fake();
  FileDescriptor segment = memory_of(4096);
  for (std::uint32_t key = 1; key <= kRemoteBuffersMax + 1; ++key) {
    offer(announcement(4096, key), segment.get());
    if (key % 64 == 0) run();
    if (key == kRemoteBuffersMax) {
      EXPECT_FALSE(fake_->is_shut_out());
    }
  }
  expect_given_up();
}

TEST_F(ShmHostile, AnnouncementsOfAStrangersDomainAreNotMapped) {
  face_fake();
  FileDescriptor segment = memory_of(4096);
  for (std::uint32_t key = 1; key <= 2000; ++key) {
    ControlMessage message = announcement(4096, 1);
    message.domain = DomainId(kFakeDomain.value + key);
    offer(message, segment.get());
    if (key % 64 == 0) run();
  }
  expect_unmoved();
}

}  // namespace
}  // namespace fairlead::rdma::shm
