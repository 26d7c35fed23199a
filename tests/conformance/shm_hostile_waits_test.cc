// How long the device waits for what a peer owes. See shm_hostile_test.h.
#include <gtest/gtest.h>

#include <chrono>

#include "conformance/shm_hostile_test.h"

namespace fairlead::rdma::shm {
namespace {

// Goal: the wait for memory ends by itself. Method: the timer of the device has stopped before, and
// nothing else wakes it.
TEST_F(ShmHostile, TheWaitForAnnouncedMemoryWakesTheDevice) {
  face_fake();
  constexpr int kLonger = 3 * static_cast<int>(kWaitCheckInterval / std::chrono::milliseconds(1));
  while (victim_->watcher().wait(*device_, kLonger) != 0) run();
  fake_->say(announcement(4096));
  run();
  bool faulty = false;
  while (!faulty) {
    ASSERT_TRUE(device_->arm());
    ASSERT_GT(victim_->watcher().wait(*device_, 10'000), 0);
    device_->disarm();
    run();
    faulty = device_->poll_fault().has_value();
  }
  EXPECT_FALSE(fake_->is_shut_out());
}

TEST_F(ShmHostile, ADeviceThatGrantsNoTimeDoesNotWaitForMemory) {
  const auto hasty = open_device(fabric_, 3, 1, true, Duration::zero());
  ASSERT_NE(hasty, nullptr);
  Endpoint end(*hasty);
  fake_->open_channel(peer_id(3));
  QueuePair& facing = end.add_queue_pair();
  ASSERT_TRUE(facing.connect({.gid = fake_->gid(), .queue_pair = kFakeQp}));
  fake_->say({.kind = Kind::kQueuePairReady,
              .source = kFakeQp,
              .destination = facing.number(),
              .domain = kFakeDomain});
  fake_->say(announcement(4096));
  end.turn();
  const auto fault = hasty->poll_fault();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->error.code, Errc::kTimedOut);
  EXPECT_FALSE(end.has_fatal(facing));
}

}  // namespace
}  // namespace fairlead::rdma::shm
