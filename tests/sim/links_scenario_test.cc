// Link groups of several links: events of a port or a queue pair affect only the group, not its
// connections. Each test runs with many seeds, or with its event at many times.
#include "sim/scenario.h"

namespace fairlead::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

class Links : public Scenario {
 protected:
  // Two pods with two ports each, of one device or of two.
  Plan two_ports() const {
    Plan plan = this->plan();
    for (ProxySettings& settings : plan.proxies) {
      (GetParam().apart ? settings.devices : settings.ports) = 2;
      settings.config.smc.max_links = 2;
      settings.config.smc.group_idle_timeout = seconds(20);
    }
    return plan;
  }
  // … with three links, where both sides have the ports for it.
  Plan three_links(unsigned client_ports, unsigned server_ports) const {
    Plan plan = two_ports();
    const unsigned ports[] = {client_ports, server_ports};
    for (std::size_t i = 0; i < 2; ++i) {
      (GetParam().apart ? plan.proxies[i].devices : plan.proxies[i].ports) = ports[i];
      plan.proxies[i].config.smc.max_links = 3;
    }
    return plan;
  }
  static Fault spare_port(Pod pod, Duration at, Duration lasting) {
    Fault fault;
    fault.kind = Fault::Kind::kSparePortDown;
    fault.pod = pod;
    fault.at = at;
    fault.lasting = lasting;
    return fault;
  }
  // A port of each side fails and returns under six connections.
  Plan flapping(Plan plan, Pod pod, Duration first) const {
    plan.fabric.retry_max = milliseconds(200);
    plan.faults.push_back(spare_port(pod, first, milliseconds(2)));
    plan.faults.push_back(spare_port(static_cast<Pod>(3 - pod), milliseconds(6), milliseconds(2)));
    for (int i = 0; i < 6; ++i) {
      plan.connections.push_back(talk(40000, 40000, microseconds(400 * i)));
      plan.connections.back().client.pause_max = milliseconds(1);
    }
    return plan;
  }
  static LinkGroupRow group_of(SimProxy& proxy) {
    const auto groups = proxy.worker()->snapshot({}).link_groups;
    EXPECT_EQ(groups.size(), 1u);
    return groups.empty() ? LinkGroupRow{} : groups.front();
  }
};

TEST_P(Links, ConnectionsAreSpreadOverTwoLinks) {
  Plan spread = two_ports();
  for (int i = 0; i < 8; ++i) {
    spread.connections.push_back(talk(50000, 50000, milliseconds(5 + i)));
    spread.connections.back().client.pause_max = milliseconds(10);
  }
  World world(1);
  Cluster cluster(world, spread);
  (void)cluster.run_until([] { return false; }, milliseconds(20));
  for (Pod pod = 1; pod <= 2; ++pod) {
    const LinkGroupRow group = group_of(cluster.proxy(pod));
    EXPECT_EQ(group.type, "symmetric");
    ASSERT_EQ(group.links.size(), 2u);
    EXPECT_NE(group.links[0].local_gid, group.links[1].local_gid);
    EXPECT_EQ(group.links[0].connections, 4u);
    EXPECT_EQ(group.links[1].connections, 4u);
  }
  EXPECT_FALSE(cluster.run().failure);
}

// Waits for a moment in which the port is redundant; after that the port fails at any step of the
// current flow.
TEST_P(Links, APortThatDiesAndReturnsAtAnyMomentIsNoticedByNobody) {
  std::uint64_t moved = 0;
  for (const unsigned announced : {0U, 1000U})
    for (Pod pod = 1; pod <= 2; ++pod)
      for (unsigned moment = 0; moment < 60; moment += kSweepStride) {
        Plan flap = flapping(two_ports(), pod, microseconds(1000 + 40 * moment));
        flap.fabric.announced_per_mille = announced;
        const Outcome outcome = run(flap, 2000U + moment);
        for (const Ends& ends : outcome.ends) EXPECT_TRUE(complete(ends));
        EXPECT_EQ(outcome.over_smc, 12u) << "moment " << moment;
        moved += outcome.moved;
      }
  EXPECT_GT(moved, 200u / kSweepStride);
}

TEST_P(Links, ALinkIsMadeAnewWhenItsPortReturns) {
  for (Pod pod = 1; pod <= 2; ++pod)
    for (std::uint64_t seed = 1; seed <= 20; seed += kSweepStride) {
      Plan returns = two_ports();
      returns.faults.push_back(spare_port(pod, milliseconds(10), milliseconds(10)));
      returns.connections.push_back(talk(200000, 200000));
      returns.connections[0].client.pause_max = milliseconds(10);
      World world(seed);
      Cluster cluster(world, returns);
      (void)cluster.run_until([] { return false; }, milliseconds(60));
      for (Pod side = 1; side <= 2; ++side) {
        EXPECT_GE(cluster.proxy(side).stats().link_added.get(), 3u) << "seed " << seed;
        EXPECT_EQ(group_of(cluster.proxy(side)).type, "symmetric") << "seed " << seed;
      }
      EXPECT_FALSE(cluster.run().failure);
    }
}

TEST_P(Links, ThreePortsCarryThreeLinks) {
  Plan three = three_links(3, 3);
  for (int i = 0; i < 9; ++i) {
    three.connections.push_back(talk(50000, 50000, milliseconds(5 + i)));
    three.connections.back().client.pause_max = milliseconds(10);
  }
  World world(1);
  Cluster cluster(world, three);
  (void)cluster.run_until([] { return false; }, milliseconds(20));
  for (Pod pod = 1; pod <= 2; ++pod) {
    const LinkGroupRow group = group_of(cluster.proxy(pod));
    EXPECT_EQ(group.type, "symmetric");
    ASSERT_EQ(group.links.size(), 3u);
    for (const LinkRow& link : group.links) EXPECT_EQ(link.connections, 3u);
  }
  EXPECT_FALSE(cluster.run().failure);
}

TEST_P(Links, OneOfThreeLinksIsLostAndRegainedAtAnyMoment) {
  std::uint64_t moved = 0;
  for (Pod pod = 1; pod <= 2; ++pod)
    for (unsigned moment = 0; moment < 40; moment += kSweepStride) {
      Plan flap = flapping(three_links(3, 3), pod, microseconds(1000 + 60 * moment));
      flap.fabric.announced_per_mille = moment % 2 == 0 ? 0 : 1000;
      const Outcome outcome = run(flap, 4000U + moment);
      for (const Ends& ends : outcome.ends) EXPECT_TRUE(complete(ends));
      EXPECT_EQ(outcome.over_smc, 12u) << "moment " << moment;
      EXPECT_EQ(outcome.links_most, 3u) << "moment " << moment;
      moved += outcome.moved;
    }
  EXPECT_GT(moved, 100u / kSweepStride);
}

TEST_P(Links, AThirdLinkIsMadeAnewWhenItsPortReturns) {
  for (Pod pod = 1; pod <= 2; ++pod)
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      Plan returns = three_links(3, 3);
      returns.faults.push_back(spare_port(pod, milliseconds(10), milliseconds(10)));
      returns.connections.push_back(talk(200000, 200000));
      returns.connections[0].client.pause_max = milliseconds(10);
      World world(seed);
      Cluster cluster(world, returns);
      (void)cluster.run_until([] { return false; }, milliseconds(60));
      for (Pod side = 1; side <= 2; ++side) {
        EXPECT_EQ(group_of(cluster.proxy(side)).type, "symmetric") << "seed " << seed;
        EXPECT_EQ(group_of(cluster.proxy(side)).links.size(), 3u) << "seed " << seed;
      }
      EXPECT_FALSE(cluster.run().failure);
    }
}

// If a final message were lost with its link, the other side would wait for a minute.
TEST_P(Links, ACloseThatDiesWithItsLinkIsRepeated) {
  for (std::uint64_t seed = 1; seed <= 60; seed += kSweepStride) {
    Plan closing = two_ports();
    for (int i = 0; i < 8; ++i) closing.connections.push_back(talk(100, 100, milliseconds(5)));
    closing.faults.push_back(
        spare_port(1 + seed % 2, milliseconds(5) + microseconds(20 * seed), seconds(1)));
    World world(seed);
    Cluster cluster(world, closing);
    EXPECT_FALSE(cluster.run_until([] { return false; }, seconds(5)));
    for (Pod pod = 1; pod <= 2; ++pod)
      EXPECT_EQ(cluster.proxy(pod).worker()->session_count(), 0u) << "seed " << seed;
    EXPECT_FALSE(cluster.run().failure);
  }
}

TEST_P(Links, OnePortAtOneSideMakesAnAsymmetricGroup) {
  Plan one = two_ports();
  one.proxies[0].ports = one.proxies[0].devices = 1;
  one.connections.push_back(talk(50000, 50000));
  one.connections[0].client.pause_max = milliseconds(10);
  World world(1);
  Cluster cluster(world, one);
  (void)cluster.run_until([] { return false; }, milliseconds(20));
  EXPECT_EQ(group_of(cluster.proxy(1)).type, "asymmetric_local");
  EXPECT_EQ(group_of(cluster.proxy(2)).type, "asymmetric_peer");
  EXPECT_FALSE(cluster.run().failure);
}

TEST_P(Links, OneLinkIsAllWhereOnlyOneIsAllowed) {
  Plan single = two_ports();
  single.proxies[1].config.smc.max_links = 1;
  single.connections.push_back(talk(50000, 50000));
  single.connections[0].client.pause_max = milliseconds(10);
  World world(1);
  Cluster cluster(world, single);
  (void)cluster.run_until([] { return false; }, milliseconds(20));
  for (Pod pod = 1; pod <= 2; ++pod) EXPECT_EQ(group_of(cluster.proxy(pod)).type, "single");
  EXPECT_FALSE(cluster.run().failure);
}

INSTANTIATE_TEST_SUITE_P(Devices, Links,
                         testing::Values(kAddressable, kStaged,
                                         DeviceKind{"TwoDevices", false, true},
                                         DeviceKind{"TwoSevereDevices", false, true, false},
                                         kReceiveQueueALink),
                         name_of);

}  // namespace
}  // namespace fairlead::sim
