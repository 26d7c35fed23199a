// Shared parts of tests with plans written by hand.
#pragma once

#include <gtest/gtest.h>

#include "base/log.h"
#include "sim/cluster.h"

namespace fairlead::sim {

// A test that sweeps over moments or seeds takes every one of them. Under AddressSanitizer, which
// is twenty times slower, it takes every eighth; the optimised build runs the same tests.
#ifdef FAIRLEAD_ADDRESS_SANITIZER
inline constexpr unsigned kSweepStride = 8;
#else
inline constexpr unsigned kSweepStride = 1;
#endif

struct DeviceKind {
  const char* name;
  bool addressable;     // remote memory is
  bool apart = false;   // a second port is that of a second device
  bool crosses = true;  // a receive queue serves queue pairs of any protection domain
  bool shared = true;   // … and more than one
};

inline constexpr DeviceKind kAddressable{"Addressable", true};
inline constexpr DeviceKind kStaged{"Staged", false};
inline constexpr DeviceKind kReceiveQueueADomain{"ReceiveQueueADomain", false, false, false};
inline constexpr DeviceKind kReceiveQueueALink{"ReceiveQueueALink", false, false, false, false};

inline std::string name_of(const testing::TestParamInfo<DeviceKind>& device) {
  return device.param.name;
}

class Scenario : public testing::TestWithParam<DeviceKind> {
 protected:
  static void SetUpTestSuite() { log_start(LogLevel::kOff, LogFormat::kLogfmt); }

  // Two pods.
  Plan plan() const {
    Plan plan;
    for (Pod pod = 1; pod <= 2; ++pod) {
      plan.proxies.push_back(default_proxy(pod));
      plan.proxies.back().addressable = GetParam().addressable;
      plan.proxies.back().receive_queue_crosses_domains = GetParam().crosses;
      plan.proxies.back().shared_receive_queues = GetParam().shared;
    }
    plan.tcp.straggler_per_mille = plan.fabric.straggler_per_mille = 0;
    return plan;
  }
  static ConnectionPlan talk(std::uint64_t out, std::uint64_t in, Duration at = {}) {
    ConnectionPlan connection;
    connection.at = at;
    connection.client.bytes = out;
    connection.server.bytes = in;
    return connection;
  }
  static Outcome run(const Plan& plan, std::uint64_t seed) {
    World world(seed);
    Cluster cluster(world, plan);
    const Outcome outcome = cluster.run();
    EXPECT_FALSE(outcome.failure) << *outcome.failure << ", seed " << seed;
    if (outcome.failure) world.write_trace(stderr, 40);
    return outcome;
  }
  static bool complete(const Ends& ends) {
    return ends.client.saw_fin && ends.server.saw_fin && ends.client.received == ends.server.sent &&
           ends.server.received == ends.client.sent;
  }
};

}  // namespace fairlead::sim
