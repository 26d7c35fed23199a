// Sleeping and waking: an armed device wakes its owner through a watched descriptor, and no wake-up
// is lost. The two ends run in separate threads here.
#include <atomic>
#include <thread>

#include "conformance/conformance_test.h"

namespace fairlead::rdma {
namespace {

// Blocks without work. False if nothing came for so long that a wake-up must be lost.
bool sleep_or_work(Endpoint& endpoint) {
  constexpr int kLostAfterMilliseconds = 120'000;
  if (endpoint.turn()) return true;
  if (!endpoint.device().arm()) return true;
  const int woken = endpoint.watcher().wait(endpoint.device(), kLostAfterMilliseconds);
  endpoint.device().disarm();
  return woken != 0;
}

TEST_P(DeviceConformance, NoWakeUpIsLostInPingPong) {
  Connection connection = connect_ready(16);
  ASSERT_TRUE(left->post_receives(16));
  settle();
  const unsigned rounds = GetParam().ping_pongs;
  bool echo_lost = false;
  std::thread echo([&] {
    for (unsigned done = 0; done < rounds && !echo_lost;) {
      echo_lost = !sleep_or_work(*right);
      for (; !right->received.empty(); ++done) {
        right->received.pop_back();
        (void)post(*connection.right, any_send(done % 16 == 0));
        right->device().ring_doorbells();
      }
      right->sends.clear();
    }
    // The last answer may still wait for a doorbell.
    right->device().ring_doorbells();
  });
  bool lost = false;
  for (unsigned round = 0; round < rounds && !lost; ++round) {
    ASSERT_TRUE(post(*connection.left, any_send(round % 16 == 0)));
    while (left->received.empty() && !lost) lost = !sleep_or_work(*left);
    left->received.clear();
    left->sends.clear();
  }
  echo.join();
  EXPECT_FALSE(lost);
  EXPECT_FALSE(echo_lost);
  EXPECT_EQ(left->watcher().failures() + right->watcher().failures(), 0);
}

TEST_P(DeviceConformance, SenderSleepsUntilThereIsRoom) {
  Connection connection = connect_ready(64, 16);
  settle();
  const unsigned messages = GetParam().ping_pongs / 4;
  const Bytes message = pattern(3000, 1);
  bool receiver_lost = false;
  std::thread receiver([&] {
    for (unsigned count = 0; count < messages && !receiver_lost;) {
      receiver_lost = !sleep_or_work(*right);
      count += static_cast<unsigned>(right->received.size());
      right->received.clear();
    }
    right->device().ring_doorbells();
  });
  bool lost = false;
  for (unsigned posted = 0; posted < messages && !lost;) {
    while (posted < messages && connection.left->send_room() > 0 &&
           post(*connection.left, send_request(message, true)))
      ++posted;
    if (posted < messages) lost = !sleep_or_work(*left);
    left->sends.clear();
  }
  left->device().ring_doorbells();
  receiver.join();
  EXPECT_FALSE(lost);
  EXPECT_FALSE(receiver_lost);
}

TEST_P(DeviceConformance, ArmRefusesWhileSomethingWaits) {
  Connection connection = connect_ready(4);
  settle();
  ASSERT_TRUE(post(*connection.left, any_send()));
  left->device().ring_doorbells();
  ASSERT_TRUE(run_until([&] { return !right->received.empty() || right->device().pending(); }));
  if (right->received.empty()) {
    EXPECT_FALSE(right->device().arm());
  }
  ASSERT_TRUE(run_until([&] { return right->received.size() == 1; }));
  settle();
  EXPECT_FALSE(right->device().pending());
  EXPECT_TRUE(right->device().arm());
  right->device().disarm();
}

}  // namespace
}  // namespace fairlead::rdma
