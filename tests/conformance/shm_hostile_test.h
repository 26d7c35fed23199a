// Goal: misbehaviour of a peer of the shared-memory device ends at most that peer's own channel.
// Method: a fake peer misbehaves in one way per test. Then its queue pair must have failed, or the
// misbehaviour must have had no effect. The device must still be able to sleep, must hold no
// additional descriptor, and must serve an honest device that was connected all the time.
#pragma once

#include <memory>
#include <optional>

#include "conformance/connection.h"
#include "conformance/fake_peer.h"

namespace fairlead::rdma::shm {

inline constexpr QpNumber kFakeQp{0x123456};
inline constexpr DomainId kFakeDomain{77};

class ShmHostile : public testing::Test {
 protected:
  using Kind = ControlMessage::Kind;

  void SetUp() override {
    device_ = open_device(fabric_, 1, 1, true, std::chrono::milliseconds(300),
                          std::chrono::milliseconds(300));
    honest_ = open_device(fabric_, 2);
    ASSERT_TRUE(device_ && honest_);
    victim_ = std::make_unique<Endpoint>(*device_);
    friend_ = std::make_unique<Endpoint>(*honest_);
    fake_ = std::make_unique<FakePeer>(fabric_, 9);
    run();
    ours_ = &victim_->add_queue_pair();
    theirs_ = &friend_->add_queue_pair();
    ASSERT_TRUE(theirs_->connect(victim_->address_of(*ours_)));
    run();  // so that there is one channel, and no other one is closed at some time later
    ASSERT_TRUE(ours_->connect(friend_->address_of(*theirs_)));
    ASSERT_TRUE(victim_->post_receives(64));
    ASSERT_TRUE(friend_->post_receives(64));
    run();
    descriptors_ = open_descriptors();
  }
  // After every test the honest pair continues and the device can sleep.
  void TearDown() override {
    fake_->close_channel();
    run();
    EXPECT_FALSE(victim_->has_fatal(*ours_));
    const std::size_t before = victim_->received.size();
    const Bytes message = pattern(1000, 1);
    EXPECT_TRUE(post(*theirs_, send_request(message, true)));
    EXPECT_TRUE(post(*ours_, send_request(message, true)));
    run();
    ASSERT_EQ(victim_->received.size(), before + 1);
    EXPECT_EQ(victim_->received.back().bytes, message);
    EXPECT_EQ(victim_->received.back().queue_pair, ours_->number());
    EXPECT_FALSE(friend_->received.empty());
    run();
    EXPECT_TRUE(device_->arm());
    device_->disarm();
    victim_->queue_pairs.clear();
    friend_->queue_pairs.clear();
    run();
    fake_->close_channel();
    EXPECT_TRUE(closed_down_to(descriptors_));
  }

  // True when no more descriptors are open, soon: threads of the devices close.
  static bool closed_down_to(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (open_descriptors() > count && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    return open_descriptors() <= count;
  }

  void run() {
    for (int idle = 0; idle < 6; ++idle) {
      while (victim_->watcher().wait(*device_, 0) != 0 && idle < 5) ++idle;
      friend_->watcher().wait(*honest_, 0);
      if (victim_->turn() | friend_->turn()) idle = 0;
    }
  }

  // A new queue pair that is connected to one of the peer, on a new channel.
  QueuePair& connect_to(FakePeer& peer, std::uint32_t send_requests = 64,
                        SharedReceiveQueue* receives = nullptr) {
    peer.open_channel(peer_id(1));
    QueuePair& made = victim_->add_queue_pair(PortNumber(1), send_requests, nullptr, receives);
    EXPECT_TRUE(made.connect(end_of(peer)));
    return made;
  }
  // Creates a queue pair of the device whose peer is the fake one, as after a handshake.
  void face_fake(std::uint32_t send_requests = 64, SharedReceiveQueue* receives = nullptr) {
    facing_ = &connect_to(*fake_, send_requests, receives);
    say(*fake_, Kind::kQueuePairReady, *facing_);
    run();
    ASSERT_FALSE(victim_->has_fatal(*facing_));
  }
  // Tells that the queue pair `from` of the peer faces that of the device, or has left it.
  static void say(FakePeer& peer, Kind kind, const QueuePair& to, QpNumber from = kFakeQp) {
    peer.say({.kind = kind, .source = from, .destination = to.number(), .domain = kFakeDomain});
  }
  PeerEndpoint end_of(const FakePeer& peer, QpNumber number = kFakeQp) const {
    return {.gid = peer.gid(), .queue_pair = number};
  }
  // Goes over what the peer has heard; true if it was told that a queue pair of its own has no
  // counterpart, and that of these numbers.
  static bool hears_refusal(FakePeer& peer, std::optional<QpNumber> ours = {},
                            std::optional<QpNumber> theirs = {}) {
    bool refused = false;
    while (const auto heard = peer.hear())
      refused |= heard->kind == Kind::kQueuePairGone &&
                 heard->source == ours.value_or(heard->source) &&
                 heard->destination == theirs.value_or(heard->destination);
    return refused;
  }
  // In the memory that announcement() announces.
  static RemoteSlice slice(std::uint64_t offset = 0, std::uint32_t key = 1) {
    return {RemoteKey(key), RemoteAddress(0x10000 + offset)};
  }
  ControlMessage announcement(std::uint64_t size, std::uint32_t key = 1) const {
    return {.kind = Kind::kAnnounce,
            .domain = kFakeDomain,
            .rkey = slice(0, key).rkey,
            .address = slice().address,
            .size_bytes = size,
            .buffer = FakePeer::buffer(key)};
  }
  // Memory like that of a buffer.
  static FileDescriptor memory_of(std::size_t size_bytes) {
    return std::move(broker::make_memory("fake", size_bytes).value());
  }
  // Grants the memory and announces it.
  void offer(const ControlMessage& message, int fd) {
    ASSERT_TRUE(fake_->grant(message.buffer.number, fd));
    fake_->say(message);
  }
  // The same with new memory of that size.
  FileDescriptor offer_memory(std::size_t size_bytes, std::uint32_t key = 1) {
    FileDescriptor memory = memory_of(size_bytes);
    offer(announcement(size_bytes, key), memory.get());
    return memory;
  }
  void expect_given_up() {
    run();
    EXPECT_TRUE(fake_->becomes_shut_out());
    EXPECT_TRUE(victim_->has_fatal(*facing_));
    auto fault = device_->poll_fault();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->peer, peer_id(9));
    EXPECT_STRNE(fault->error.what, "");
  }
  void expect_unmoved() {
    run();
    EXPECT_FALSE(fake_->is_shut_out());
    EXPECT_FALSE(victim_->has_fatal(*facing_));
    EXPECT_FALSE(device_->poll_fault());
  }

  TestFabric fabric_;
  std::unique_ptr<ShmDevice> device_, honest_;
  std::unique_ptr<Endpoint> victim_, friend_;
  std::unique_ptr<FakePeer> fake_;
  QueuePair* ours_ = nullptr;
  QueuePair* theirs_ = nullptr;
  QueuePair* facing_ = nullptr;
  std::size_t descriptors_ = 0;
};

}  // namespace fairlead::rdma::shm
