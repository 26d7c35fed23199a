// The fixture of the conformance suite: two endpoints, connected queue pairs between them, and
// functions that wait for a condition.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "conformance/device_pair.h"
#include "conformance/endpoint.h"

namespace fairlead::rdma {

class DeviceConformance : public testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override { start(1); }

  void start(unsigned ports) {
    right.reset();
    left.reset();
    pair.reset();
    pair = GetParam().make(ports);
    if (pair == nullptr) GTEST_SKIP() << "no " << GetParam().name << " device on this machine";
    left = std::make_unique<Endpoint>(pair->left());
    right = std::make_unique<Endpoint>(pair->right());
  }

  // Runs both sides until `done`; false if nothing happens for so long that something must hang.
  bool run_until(const std::function<bool()>& done) {
    constexpr int kIdleTurnsMax = 10000;
    for (int idle = 0; idle < kIdleTurnsMax;) {
      if (done()) return true;
      const bool left_busy = left->turn();
      const bool right_busy = right->turn();
      pair->turn();
      if (left_busy || right_busy) {
        idle = 0;
      } else if (++idle > 2) {
        left->watcher().wait(left->device(), 2);
        right->watcher().wait(right->device(), 2);
      }
    }
    return done();
  }
  // Until nothing happens for a few turns.
  void settle() {
    for (int idle = 0; idle < 8; ++idle) {
      if (left->turn() | right->turn()) idle = 0;
      left->watcher().wait(left->device(), 0);
      right->watcher().wait(right->device(), 0);
      pair->turn();
    }
  }

  struct Connection {
    QueuePair* left;
    QueuePair* right;
  };
  Connection connect(PortNumber port = PortNumber(1), std::uint32_t send_requests = 64,
                     ProtectionDomain* right_domain = nullptr,
                     SharedReceiveQueue* right_queue = nullptr) {
    Connection made{&left->add_queue_pair(port, send_requests),
                    &right->add_queue_pair(port, send_requests, right_domain, right_queue)};
    EXPECT_TRUE(made.left->connect(right->address_of(*made.right, port)));
    EXPECT_TRUE(made.right->connect(left->address_of(*made.left, port)));
    return made;
  }

  // Sends one message from left to right; true if it arrives.
  bool works(const Connection& connection) {
    const Bytes message = pattern(44, 77);
    const std::size_t before = right->received.size();
    if (!post(*connection.left, send_request(message))) return false;
    return run_until([&] { return right->received.size() > before; }) &&
           right->received.back().bytes == message &&
           right->received.back().queue_pair == connection.right->number();
  }

  // A request from left to right has failed, and both ends have reported it.
  bool both_notice(const Connection& connection) {
    return run_until([&] {
      return right->has_fatal(*connection.right) && !left->sent(*connection.left).empty();
    });
  }

  std::unique_ptr<DevicePair> pair;
  std::unique_ptr<Endpoint> left, right;
};

}  // namespace fairlead::rdma
