// How a device serves the channels and the receive queues of its queue pairs: turns, messages that
// have to wait, and what is left of a channel. The other end is a fake peer.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "base/linux/descriptors.h"
#include "conformance/shm_hostile_test.h"

namespace fairlead::rdma::shm {
namespace {

class ShmMessages : public ShmHostile {
 protected:
  // As face_fake(), without receive requests.
  void face_fake_unready() {
    unready_ = std::move(device_->create_shared_receive_queue(victim_->domain(), kUnready).value());
    face_fake(64, unready_.get());
  }
  // Goes over what the peer has heard; true if it was told that `ours` is not there for `theirs`.
  static bool is_refused(FakePeer& peer, QpNumber ours, QpNumber theirs) {
    bool refused = false;
    while (const auto heard = peer.hear())
      refused |= heard->kind == Kind::kQueuePairGone && heard->source == ours &&
                 heard->destination == theirs;
    return refused;
  }
  std::uint64_t wish() { return fake_->memory().sides[1].sleeping; }

  static constexpr std::uint32_t kUnready = 8;
  std::unique_ptr<SharedReceiveQueue> unready_;
};

// A channel without traffic is left asleep in the end: only its bell makes the device look again.
class ShmAwake : public ShmMessages {
 protected:
  void expect_awake_while(const std::function<void()>& traffic) {
    for (int round = 0; round < 4; ++round) {
      for (unsigned i = 0; i < kIdleArmsMax / 2; ++i) {
        ASSERT_TRUE(device_->arm());
        device_->disarm();
      }
      EXPECT_EQ(wish(), 0u) << round;
      traffic();
      victim_->turn();
    }
    for (unsigned i = 0; i < kIdleArmsMax; ++i) {
      ASSERT_TRUE(device_->arm());
      device_->disarm();
    }
    EXPECT_NE(wish(), 0u);
  }
};

TEST_F(ShmAwake, AChannelOverWhichMessagesComeIsLookedAt) {
  face_fake();
  expect_awake_while([&] { fake_->put(facing_->number(), kFakeQp, 44); });
  EXPECT_EQ(victim_->received.size(), 4u);
}

TEST_F(ShmAwake, AChannelOverWhichMessagesGoIsLookedAt) {
  face_fake();
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(post(*facing_, send_request(std::span(kAnyMessage), true)));
  expect_awake_while([&] { ++fake_->in().head; });
  EXPECT_EQ(victim_->sent(*facing_).size(), 4u);
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
    peers.back()->open_channel(peer_id(1));
    QueuePair& faced = victim_->add_queue_pair();
    ASSERT_TRUE(faced.connect(end_of(*peers.back())));
    say(*peers.back(), Kind::kQueuePairReady, faced);
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
  fake_->open_channel(peer_id(1));
  facing_ = &victim_->add_queue_pair();
  ASSERT_TRUE(facing_->connect(end_of(*fake_)));
  // More than one turn takes.
  for (int i = 0; i < 2 * kControlBatch; ++i)
    fake_->say({.kind = Kind::kWithdraw, .rkey = RemoteKey(7)});
  say(*fake_, Kind::kQueuePairReady, *facing_);
  fake_->put(facing_->number(), kFakeQp, 44);
  victim_->turn();
  EXPECT_TRUE(device_->pending());
  run();
  EXPECT_EQ(victim_->received.size(), 1u);
  EXPECT_FALSE(is_refused(*fake_, facing_->number(), kFakeQp));
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

TEST_F(ShmMessages, MessagesForAnUnconnectedQueuePairOfAnotherAreRefused) {
  face_fake();
  const QueuePair& waiting = victim_->add_queue_pair();
  for (const QpNumber source : {kFakeQp, QpNumber(77)}) {
    fake_->put(waiting.number(), source, 44);
    run();
    EXPECT_TRUE(is_refused(*fake_, waiting.number(), source));
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
