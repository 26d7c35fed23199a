// Endpoints that are connected to each other, and turns of both.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "conformance/endpoint.h"

namespace fairlead::rdma {

// Queue pairs of two endpoints that are connected to each other.
struct Connection {
  QueuePair* left;
  QueuePair* right;
};

inline Connection connect(Endpoint& left, Endpoint& right, PortNumber port = PortNumber(1),
                          std::uint32_t send_requests = 64,
                          ProtectionDomain* right_domain = nullptr,
                          SharedReceiveQueue* right_queue = nullptr) {
  Connection made{&left.add_queue_pair(port, send_requests),
                  &right.add_queue_pair(port, send_requests, right_domain, right_queue)};
  EXPECT_TRUE(made.left->connect(right.address_of(*made.right, port)));
  EXPECT_TRUE(made.right->connect(left.address_of(*made.left, port)));
  return made;
}

// Runs the endpoints until `done`; false if nothing happens for so long that something must hang.
template <class... Endpoints>
bool run_until(const std::function<bool()>& done, Endpoints&... endpoints) {
  constexpr int kIdleTurnsMax = 10000;
  for (int idle = 0; idle < kIdleTurnsMax;) {
    if (done()) return true;
    const bool busy = (endpoints.turn() | ...);
    idle = busy ? 0 : idle + 1;
    if (idle > 2) (endpoints.watcher().wait(endpoints.device(), 2), ...);
  }
  return done();
}

// Until nothing happens for a few turns.
template <class... Endpoints>
void settle(Endpoints&... endpoints) {
  for (int idle = 0; idle < 8; ++idle) {
    if ((endpoints.turn() | ...)) idle = 0;
    (endpoints.watcher().wait(endpoints.device(), 0), ...);
  }
}

}  // namespace fairlead::rdma
