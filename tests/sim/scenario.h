// Shared parts of tests with plans written by hand.
#pragma once

#include <gtest/gtest.h>

#include "base/log.h"
#include "sim/cluster.h"

namespace fairlead::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

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

constexpr Pod peer_of(Pod pod) { return static_cast<Pod>(3 - pod); }

inline bool complete(const Ends& ends) {
  return ends.client.saw_fin && ends.server.saw_fin && ends.client.received == ends.server.sent &&
         ends.server.received == ends.client.sent;
}

struct SeededWorld {
  explicit SeededWorld(std::uint64_t seed) : world(seed) {}
  World world;
};

// A cluster in a world of its own, for tests that inspect or change something during the run.
class Simulation : public SeededWorld, public Cluster {
 public:
  explicit Simulation(const Plan& plan, std::uint64_t seed = 1)
      : SeededWorld(seed), Cluster(world, plan) {}

  void pass(Duration time) {
    (void)run_until([] { return false; }, time);
  }
  // To the end, without a failure.
  Outcome finish() {
    Outcome outcome = run();
    EXPECT_FALSE(outcome.failure) << *outcome.failure << ", seed " << world.seed;
    if (outcome.failure) world.write_trace(stderr, 40);
    return outcome;
  }
  // The same, and each connection is complete; with so many ends over SMC-R.
  Outcome finish_whole(std::optional<std::uint64_t> over_smc = {}) {
    Outcome outcome = finish();
    for (std::size_t i = 0; i < outcome.ends.size(); ++i)
      EXPECT_TRUE(complete(outcome.ends[i])) << "connection " << i << ", seed " << world.seed;
    EXPECT_EQ(outcome.over_smc, over_smc.value_or(outcome.over_smc)) << "seed " << world.seed;
    return outcome;
  }
  // Of the connections from pod 1 to pod 2.
  std::uint64_t fallbacks(Pod pod, Side side, FallbackReason reason) {
    const Direction direction = pod == 1 ? Direction::kOutbound : Direction::kInbound;
    return proxy(pod).stats().fallback[direction][side][reason].get();
  }
  relay::Group& only_group_of(Pod pod) {
    EXPECT_EQ(proxy(pod).worker()->groups().peers().count(), 1u);
    relay::Group* only = nullptr;
    proxy(pod).worker()->groups().peers().for_each([&](relay::Group& group) { only = &group; });
    return *only;
  }
};

class Scenario : public testing::TestWithParam<DeviceKind> {
 protected:
  using Kind = Fault::Kind;

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
  // The same, whose connections begin in frames.
  Plan deferring(std::size_t bytes) const {
    Plan made = plan();
    for (ProxySettings& settings : made.proxies) settings.config.smc.defer_bytes = bytes;
    return made;
  }
  static ConnectionPlan talk(std::uint64_t out, std::uint64_t in, Duration at = {}) {
    ConnectionPlan connection;
    connection.at = at;
    connection.client.bytes = out;
    connection.server.bytes = in;
    return connection;
  }
  static ConnectionPlan pausing(ConnectionPlan connection, Duration pause_max) {
    connection.client.pause_max = pause_max;
    return connection;
  }
  static Outcome run(const Plan& plan, std::uint64_t seed) {
    return Simulation(plan, seed).finish();
  }
  static Outcome run_whole(const Plan& plan, std::uint64_t seed,
                           std::optional<std::uint64_t> over_smc = {}) {
    return Simulation(plan, seed).finish_whole(over_smc);
  }
};

}  // namespace fairlead::sim
