// How a queue pair of the shared-memory device finds its other end, on which channels, and what it
// may write there. The other end is a fake peer.
#include <cstring>
#include <vector>

#include "conformance/shm_hostile_test.h"

namespace fairlead::rdma::shm {
namespace {

constexpr QpNumber kOtherQp{kFakeQp.value + 1};

class ShmPairing : public ShmHostile {
 protected:
  void TearDown() override {
    second_.reset();
    ShmHostile::TearDown();
  }
  // One message of the peer arrives at that queue pair.
  void expect_received(FakePeer& peer, const QueuePair& to, QpNumber from = kFakeQp) {
    const std::size_t before = victim_->received.size();
    peer.put(to.number(), from, 44);
    run();
    ASSERT_EQ(victim_->received.size(), before + 1);
    EXPECT_EQ(victim_->received.back().queue_pair, to.number());
    EXPECT_FALSE(hears_refusal(peer));
  }
  void expect_refused(FakePeer& peer, const QueuePair& to, QpNumber from = kFakeQp) {
    const std::size_t before = victim_->received.size();
    (void)hears_refusal(peer);
    peer.put(to.number(), from, 44);
    run();
    EXPECT_EQ(victim_->received.size(), before);
    EXPECT_TRUE(hears_refusal(peer));
  }
  // The queue pair posts on the channel of `fake_`, and its peer on that of `second_`.
  void face_on_two_channels() {
    facing_ = &connect_to(*fake_);
    second_ = std::make_unique<FakePeer>(fabric_, 10);
    second_->open_channel_as(peer_id(1), peer_id(9));
    say(*second_, Kind::kQueuePairReady, *facing_);
    run();
  }
  CompletionStatus last_status() const { return victim_->sends.back().status; }

  std::unique_ptr<FakePeer> second_;
};

TEST_F(ShmPairing, AGidOfAnotherFabricIsOfNobodyHere) {
  fake_->open_channel(peer_id(1));
  run();
  TestFabric elsewhere;
  const auto foreign = open_device(elsewhere, 3);
  facing_ = &victim_->add_queue_pair();
  const Gid same_peer = gid_of(foreign->fabric(), PortNumber(1), peer_id(9));
  for (const Gid& gid : {same_peer, Gid{}})
    EXPECT_EQ(facing_->connect({.gid = gid, .queue_pair = kFakeQp}).error().code, Errc::kPeerGone);
  EXPECT_TRUE(facing_->connect(end_of(*fake_)));
}

TEST_F(ShmPairing, WhoAnnouncedItselfIsForgottenIfTheQueuePairIsConnectedToAnother) {
  FakePeer other(fabric_, 10, peer_id(1));
  fake_->open_channel(peer_id(1));
  const struct {
    FakePeer& announcer;
    QpNumber announced, connected;
  } cases[] = {{other, QpNumber(500), QpNumber(500)}, {*fake_, QpNumber(501), QpNumber(600)}};
  for (const auto& one : cases) {
    QueuePair& waiting = victim_->add_queue_pair();
    say(one.announcer, Kind::kQueuePairReady, waiting, one.announced);
    run();
    ASSERT_TRUE(waiting.connect(end_of(*fake_, one.connected)));
    expect_refused(one.announcer, waiting, one.announced);
    say(*fake_, Kind::kQueuePairReady, waiting, one.connected);
    expect_received(*fake_, waiting, one.connected);
  }
}

TEST_F(ShmPairing, WhoAnnouncedItselfIsKeptWhateverAnotherOfThatNumberSays) {
  FakePeer other(fabric_, 10, peer_id(1));
  fake_->open_channel(peer_id(1));
  facing_ = &victim_->add_queue_pair();
  say(*fake_, Kind::kQueuePairReady, *facing_);
  run();
  say(other, Kind::kQueuePairGone, *facing_);
  say(*fake_, Kind::kQueuePairGone, *facing_, kOtherQp);
  run();
  other.close_channel();
  run();
  ASSERT_TRUE(facing_->connect(end_of(*fake_)));
  expect_received(*fake_, *facing_);
}

TEST_F(ShmPairing, AnnouncementsForQueuePairsThatAreGoneAreNotKept) {
  fake_->open_channel(peer_id(1));
  for (std::uint32_t i = 1; i <= kRemoteQueuePairsMax + 10; ++i) {
    const QueuePair& waiting = victim_->add_queue_pair();
    say(*fake_, Kind::kQueuePairReady, waiting, QpNumber(i));
    victim_->watcher().wait(*device_, 0);
    victim_->turn();
    victim_->queue_pairs.pop_back();
  }
  EXPECT_FALSE(fake_->is_shut_out());
  EXPECT_FALSE(device_->poll_fault());
  EXPECT_FALSE(hears_refusal(*fake_));
}

TEST_F(ShmPairing, MessagesAreTakenOnTheChannelOfTheAnnouncement) {
  face_on_two_channels();
  ASSERT_TRUE(post(*facing_, any_send()));
  EXPECT_EQ(fake_->in().tail, 1u);
  EXPECT_EQ(second_->in().tail, 0u);
  expect_received(*second_, *facing_);
  expect_refused(*fake_, *facing_);
  EXPECT_FALSE(victim_->has_fatal(*facing_));
}

TEST_F(ShmPairing, TheEndOfEitherChannelIsTheEnd) {
  for (auto* const ending : {&fake_, &second_}) {
    face_on_two_channels();
    (*ending)->close_channel();
    run();
    EXPECT_TRUE(victim_->has_fatal(*facing_));
  }
}

TEST_F(ShmPairing, ThePeerLeavesOnEitherOfTheTwoChannelsOnly) {
  for (auto* const leaving : {&fake_, &second_}) {
    face_on_two_channels();
    FakePeer third(fabric_, 11);
    third.open_channel_as(peer_id(1), peer_id(9));
    say(third, Kind::kQueuePairGone, *facing_);
    run();
    EXPECT_FALSE(victim_->has_fatal(*facing_));
    third.close_channel();
    run();
    EXPECT_FALSE(victim_->has_fatal(*facing_));
    say(**leaving, Kind::kQueuePairGone, *facing_);
    run();
    EXPECT_TRUE(victim_->has_fatal(*facing_));
  }
}

TEST_F(ShmPairing, BeforeThePeerHasAnnouncedItselfItsMemoryIsNotKnown) {
  fake_->open_channel(peer_id(1));
  facing_ = &victim_->add_queue_pair();
  EXPECT_EQ(facing_->remote_memory(slice(), 1).error().code, Errc::kWrongState);
  facing_->release_remote_memory(RemoteKey(1));
  ASSERT_TRUE(facing_->connect(end_of(*fake_)));
  EXPECT_EQ(facing_->remote_memory(slice(), 1).error().code, Errc::kWouldBlock);
  facing_->release_remote_memory(RemoteKey(1));
  EXPECT_EQ(facing_->send_room(), 64u);
  ASSERT_TRUE(post(*facing_, write_request(victim_->memory(), 0, 1, slice(), true)));
  run();
  ASSERT_EQ(victim_->sends.size(), 1u);
  EXPECT_EQ(last_status(), CompletionStatus::kRemoteAccessError);
  EXPECT_EQ(facing_->remote_memory(slice(), 1).error().code, Errc::kWrongState);
}

TEST_F(ShmPairing, WhatThePeerSaidIsKnownToAccessesWithoutAPoll) {
  face_fake();
  const FileDescriptor memory = offer_memory(4096);
  EXPECT_TRUE(facing_->remote_memory(slice(), 4096));
  offer(announcement(4096, 2), memory.get());
  EXPECT_TRUE(post(*facing_, write_request(victim_->memory(), 0, 8, slice(8, 2))));
  fake_->say({.kind = Kind::kWithdraw, .rkey = RemoteKey(1)});
  EXPECT_EQ(facing_->remote_memory(slice(), 4096).error().code, Errc::kNotFound);
  fake_->say({.kind = Kind::kWithdraw, .rkey = RemoteKey(2)});
  victim_->memory().bytes()[0] = std::byte{1};
  const WorkRequest chain[] = {any_send(true, 1),
                               write_request(victim_->memory(), 0, 1, slice(0, 2), true, 2)};
  EXPECT_TRUE(facing_->post(chain));
  run();
  EXPECT_EQ(last_status(), CompletionStatus::kRemoteAccessError);
  const Mapping theirs = std::move(Mapping::map(memory.get(), 4096).value());
  EXPECT_EQ(theirs.bytes()[0], std::byte{0});
}

// Both buffers have the same size.
TEST_F(ShmPairing, AWriteReachesAllOfTheBuffers) {
  face_fake();
  const std::span<std::byte> ours = victim_->memory().bytes();
  const auto size = static_cast<std::uint32_t>(ours.size());
  const FileDescriptor memory = offer_memory(size);
  const Bytes bytes = pattern(size, 3);
  std::memcpy(ours.data(), bytes.data(), size);
  const WorkRequest chain[] = {write_request(victim_->memory(), 0, size, slice(), true),
                               write_request(victim_->memory(), size - 1, 1, slice(size - 1), true),
                               write_request(victim_->memory(), size, 0, slice(size), true)};
  ASSERT_TRUE(facing_->post(chain));
  EXPECT_TRUE(device_->pending());
  run();
  ASSERT_EQ(victim_->sent(*facing_).size(), 3u);
  for (const Completion& one : victim_->sent(*facing_))
    EXPECT_EQ(one.status, CompletionStatus::kSuccess);
  const Mapping theirs = std::move(Mapping::map(memory.get(), size).value());
  EXPECT_EQ(std::memcmp(theirs.bytes().data(), bytes.data(), size), 0);
}

TEST_F(ShmPairing, AWriteOfMoreThanTheOwnBufferHasIsALocalError) {
  const std::span<std::byte> ours = victim_->memory().bytes();
  const auto size = static_cast<std::uint32_t>(ours.size());
  std::memset(ours.data(), 0x11, size);
  const struct {
    std::size_t offset;
    std::uint32_t length;
  } cases[] = {{0, size + 1}, {1, size}, {size, 1}, {size + 1, 0}, {~std::size_t{0}, 1}};
  for (const auto& one : cases) {
    face_fake();
    const FileDescriptor memory = offer_memory(2 * size);
    ASSERT_TRUE(post(*facing_, write_request(victim_->memory(), one.offset, one.length, slice())));
    run();
    ASSERT_EQ(victim_->sent(*facing_).size(), 1u);
    EXPECT_EQ(last_status(), CompletionStatus::kLocalError) << one.offset;
    EXPECT_TRUE(victim_->has_fatal(*facing_));
    const Mapping theirs = std::move(Mapping::map(memory.get(), 2 * size).value());
    EXPECT_EQ(theirs.bytes()[0], std::byte{0}) << one.offset;
  }
}

// Without that, what is withdrawn while somebody has a view of it has a limit.
TEST_F(ShmPairing, AViewThatIsGivenBackCostsNothing) {
  face_fake();
  for (std::size_t round = 0; round < kSinksMax + 10; ++round) {
    offer_memory(4096);
    ASSERT_TRUE(facing_->remote_memory(slice(), 4096)) << round;
    fake_->say({.kind = Kind::kWithdraw, .rkey = RemoteKey(1)});
    // Before or after the device has learnt of that.
    if (round % 2 == 0) {
      EXPECT_FALSE(facing_->remote_memory(slice(), 4096));
    }
    facing_->release_remote_memory(RemoteKey(1));
  }
  expect_unmoved();
}

// A device of the test's own. It waits for announced memory as long as it takes.
class ShmOwnDevice : public ShmHostile {
 protected:
  void TearDown() override {
    end_.reset();
    own_.reset();
    ShmHostile::TearDown();
  }
  void open(bool addressable) {
    own_ = open_device(fabric_, 3, 1, addressable, std::chrono::hours(1));
    ASSERT_NE(own_, nullptr);
    end_ = std::make_unique<Endpoint>(*own_);
    fake_->open_channel(peer_id(3));
    sender_ = &end_->add_queue_pair();
  }
  Result<void> connect() { return sender_->connect(end_of(*fake_)); }
  void answer() { say(*fake_, Kind::kQueuePairReady, *sender_); }
  void settle() { rdma::settle(*end_); }

  std::unique_ptr<ShmDevice> own_;
  std::unique_ptr<Endpoint> end_;
  QueuePair* sender_ = nullptr;
};

// More buffers to announce than the control ring holds.
class ShmManyBuffers : public ShmOwnDevice {
 protected:
  void SetUp() override {
    ShmOwnDevice::SetUp();
    ASSERT_NO_FATAL_FAILURE(open(true));
    for (std::uint64_t i = 0; i < kControlSlots + 10; ++i)
      buffers_.push_back(
          std::move(own_->allocate_buffer(end_->domain(), 4096, BufferUse::kRmb).value()));
  }
  void TearDown() override {
    buffers_.clear();
    ShmOwnDevice::TearDown();
  }

  std::vector<std::unique_ptr<RegisteredBuffer>> buffers_;
};

TEST_F(ShmManyBuffers, NoMessageOvertakesAnAnnouncementThatWaits) {
  ASSERT_TRUE(connect());
  answer();
  settle();
  EXPECT_EQ(sender_->send_room(), 0u);
  EXPECT_EQ(post(*sender_, any_send()).error().code, Errc::kExhausted);
  EXPECT_EQ(fake_->in().tail, 0u);
  while (fake_->hear()) continue;
  settle();
  EXPECT_EQ(sender_->send_room(), 64u);
  EXPECT_TRUE(post(*sender_, any_send()));
}

// The device looks at the head of the control ring when that seems to be full.
TEST_F(ShmManyBuffers, ConnectFailsIfThePeerBreaksTheChannelMeanwhile) {
  fake_->control_in().head = 1000;
  EXPECT_EQ(connect().error().code, Errc::kPeerGone);
  EXPECT_EQ(post(*sender_, any_send()).error().code, Errc::kWrongState);
  EXPECT_EQ(connect().error().code, Errc::kWrongState);
  settle();
  EXPECT_FALSE(end_->has_fatal(*sender_));
  EXPECT_TRUE(fake_->becomes_shut_out());
}

class ShmAnnounced : public ShmOwnDevice, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    ShmOwnDevice::SetUp();
    ASSERT_NO_FATAL_FAILURE(open(GetParam()));
    ASSERT_TRUE(connect());
    EXPECT_EQ(sender_->send_room(), 64u);
    answer();
    ASSERT_TRUE(fake_->grant(announcement(4096, 1).buffer.number, memory_.get()));
    fake_->say(announcement(4096, 1));
    settle();
    fake_->say(announcement(4096, 2));
    settle();
  }
  WorkRequest write_to(std::uint32_t key) const {
    return write_request(end_->memory(), 0, 1, slice(0, key), true);
  }

  const FileDescriptor memory_ = memory_of(4096);
};

TEST_P(ShmAnnounced, WritesWaitForTheMemoryAndSendsDoNot) {
  EXPECT_EQ(sender_->remote_memory(slice(), 1).has_value(), GetParam());
  // A plain device gives no addresses: send_room() says that a write would be refused.
  EXPECT_EQ(sender_->send_room(), GetParam() ? 64u : 0u);
  EXPECT_TRUE(post(*sender_, any_send()));
  const WorkRequest chain[] = {any_send(), write_to(2)};
  EXPECT_EQ(sender_->post(chain).error().code, Errc::kExhausted);
  EXPECT_EQ(fake_->in().tail, 1u);
  ASSERT_TRUE(fake_->grant(announcement(4096, 2).buffer.number, memory_.get()));
  end_->memory().bytes()[0] = std::byte{7};
  EXPECT_TRUE(post(*sender_, write_to(2)));
  settle();
  EXPECT_EQ(sender_->send_room(), 62u);
  EXPECT_FALSE(end_->has_fatal(*sender_));
  const Mapping theirs = std::move(Mapping::map(memory_.get(), 4096).value());
  EXPECT_EQ(theirs.bytes()[0], std::byte{7});
}

TEST_P(ShmAnnounced, WhoFoundNoRoomForThatIsWokenByThePeersProgress) {
  if (GetParam())
    EXPECT_EQ(post(*sender_, write_to(2)).error().code, Errc::kExhausted);
  else
    EXPECT_EQ(sender_->send_room(), 0u);
  ASSERT_TRUE(own_->arm());
  EXPECT_EQ(fake_->memory().sides[1].sleeping, kWakeOnMessage | kWakeOnProgress);
  own_->disarm();
}

INSTANTIATE_TEST_SUITE_P(AddressableAndPlain, ShmAnnounced, testing::Bool());

}  // namespace
}  // namespace fairlead::rdma::shm
