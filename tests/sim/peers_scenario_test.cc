// Memory of a peer: many peers of one proxy, each with an idle connection.
#include "sim/scenario.h"

namespace fairlead::sim {
namespace {

constexpr Pod kServer = 1;
constexpr unsigned kPeers = 50;
// Registered memory, with a proxy's default buffer sizes. In addition the queues of the queue pair
// need some 16 KiB.
constexpr std::size_t kPinnedAPeerMax = 584 * config::kKibibyte;

class Peers : public Scenario {
 protected:
  Plan many_peers() const {
    Plan plan;
    for (unsigned pod = kServer; pod <= kServer + kPeers; ++pod) {
      plan.proxies.push_back(this->plan().proxies.front());
      ProxySettings& settings = plan.proxies.back();
      settings.pod = static_cast<Pod>(pod);
      settings.config.buffers = {};
      settings.memory_bytes = pod == kServer ? 512 * config::kMebibyte : 64 * config::kMebibyte;
      if (pod == kServer) continue;
      ConnectionPlan connection = talk(2000, 2000, microseconds(200 * pod));
      connection.from = settings.pod;
      connection.to = kServer;
      connection.client.stall_after = connection.server.stall_after = 1000;
      connection.client.stall = connection.server.stall = seconds(1);
      plan.connections.push_back(connection);
    }
    return plan;
  }
};

TEST_P(Peers, CostOneRingInEachDirectionAndFewMessages) {
  Simulation cluster(many_peers());
  SimProxy& server = cluster.proxy(kServer);
  const SimDevice& device = *server.devices()[0];
  const std::size_t before = device.locked_bytes();
  cluster.pass(milliseconds(500));
  ASSERT_EQ(server.worker()->groups().peers().count(), kPeers);
  EXPECT_LE(device.locked_bytes() - before, kPeers * kPinnedAPeerMax);
  cluster.finish_whole(2U * kPeers);
}

INSTANTIATE_TEST_SUITE_P(Devices, Peers,
                         testing::Values(kAddressable, kStaged, kReceiveQueueADomain,
                                         kReceiveQueueALink),
                         name_of);

}  // namespace
}  // namespace fairlead::sim
