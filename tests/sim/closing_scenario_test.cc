// Ends of connections that take longer than the waits of the proxies.
#include "relay/session.h"
#include "sim/scenario.h"

namespace fairlead::sim {
namespace {

using std::chrono::seconds;

constexpr std::size_t kSocketBytes = 4096;

class ClosingScenario : public Scenario {
 protected:
  static Plan with_small_sockets(Plan plan) {
    plan.tcp.buffer_bytes_min = plan.tcp.buffer_bytes_max = kSocketBytes;
    return plan;
  }
};

// Both applications have said FIN, and the proxies hold what one of them does not read yet.
TEST_P(ClosingScenario, AFinishedConnectionWaitsForAReaderThatStalls) {
  const std::uint64_t ring = default_proxy(1).config.buffers.size;
  for (const std::uint64_t bytes : {kSocketBytes + ring / 2, kSocketBytes + ring + ring / 2})
    for (const bool client_stalls : {false, true}) {
      Plan stalled = with_small_sockets(plan());
      stalled.connections.push_back(client_stalls ? talk(0, bytes) : talk(bytes, 0));
      Script& reader =
          client_stalls ? stalled.connections[0].client : stalled.connections[0].server;
      reader.stall_after = 0;
      reader.stall = relay::kCloseAnswerWait + seconds(10);
      World world(1);
      Cluster cluster(world, stalled);
      (void)cluster.run_until([] { return false; }, reader.stall - seconds(1));
      for (Pod pod = 1; pod <= 2; ++pod)
        EXPECT_EQ(cluster.proxy(pod).worker()->session_count(), 1u) << bytes << ", pod " << pod;
      const Outcome outcome = cluster.run();
      EXPECT_FALSE(outcome.failure) << *outcome.failure;
      EXPECT_TRUE(complete(outcome.ends[0])) << bytes;
      EXPECT_EQ(outcome.over_smc, 2u);
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, ClosingScenario,
                         testing::Values(DeviceKind{"Addressable", true},
                                         DeviceKind{"Staged", false, false, false}),
                         [](const auto& device) { return std::string(device.param.name); });

}  // namespace
}  // namespace fairlead::sim
