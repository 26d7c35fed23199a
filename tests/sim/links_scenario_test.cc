// Link groups of several links: events of a port or a queue pair affect only the group, not its
// connections. Each test runs with many seeds, or with its event at many times.
#include "sim/scenario.h"

namespace fairlead::sim {
namespace {

class Links : public Scenario {
 protected:
  // Two pods with so many ports each, of one device or of as many, and as many links.
  Plan linked(unsigned ports) const {
    Plan plan = this->plan();
    for (ProxySettings& settings : plan.proxies) {
      (GetParam().apart ? settings.devices : settings.ports) = ports;
      settings.config.smc.max_links = ports;
      settings.config.smc.group_idle_timeout = seconds(20);
    }
    return plan;
  }
  static Fault spare_port(Pod pod, Duration at, Duration lasting) {
    return {.kind = Kind::kSparePortDown, .at = at, .pod = pod, .lasting = lasting};
  }
  // A port of each side fails and returns under six connections.
  Plan flapping(Plan plan, Pod pod, Duration first) const {
    plan.fabric.retry_max = milliseconds(200);
    plan.faults.push_back(spare_port(pod, first, milliseconds(2)));
    plan.faults.push_back(spare_port(peer_of(pod), milliseconds(6), milliseconds(2)));
    for (int i = 0; i < 6; ++i)
      plan.connections.push_back(
          pausing(talk(40000, 40000, microseconds(400 * i)), milliseconds(1)));
    return plan;
  }
  static LinkGroupRow group_of(SimProxy& proxy) {
    const auto groups = proxy.worker()->snapshot({}).link_groups;
    EXPECT_EQ(groups.size(), 1u);
    return groups.empty() ? LinkGroupRow{} : groups.front();
  }
  // Of the group of one connection, at the client and at the server.
  static void expect_types(Plan plan, const char* client, const char* server) {
    plan.connections.push_back(pausing(talk(50000, 50000), milliseconds(10)));
    Simulation cluster(plan);
    cluster.pass(milliseconds(20));
    EXPECT_EQ(group_of(cluster.proxy(1)).type, client);
    EXPECT_EQ(group_of(cluster.proxy(2)).type, server);
    cluster.finish();
  }
};

TEST_P(Links, ConnectionsAreSpreadOverTwoOrThreeLinks) {
  for (const unsigned ports : {2U, 3U}) {
    const unsigned each = ports == 2 ? 4 : 3;
    Plan spread = linked(ports);
    for (unsigned i = 0; i < ports * each; ++i)
      spread.connections.push_back(
          pausing(talk(50000, 50000, milliseconds(5 + i)), milliseconds(10)));
    Simulation cluster(spread);
    cluster.pass(milliseconds(20));
    for (Pod pod = 1; pod <= 2; ++pod) {
      const LinkGroupRow group = group_of(cluster.proxy(pod));
      EXPECT_EQ(group.type, "symmetric");
      ASSERT_EQ(group.links.size(), ports);
      EXPECT_NE(group.links[0].local_gid, group.links[1].local_gid);
      for (const LinkRow& link : group.links) EXPECT_EQ(link.connections, each);
    }
    cluster.finish();
  }
}

// Waits for a moment in which the port is redundant; after that the port fails at any step of the
// current flow.
TEST_P(Links, APortThatDiesAndReturnsAtAnyMomentIsNoticedByNobody) {
  std::uint64_t moved = 0;
  for (const unsigned announced : {0U, 1000U})
    for (Pod pod = 1; pod <= 2; ++pod)
      for (unsigned moment = 0; moment < 60; moment += kSweepStride) {
        Plan flap = flapping(linked(2), pod, microseconds(1000 + 40 * moment));
        flap.fabric.announced_per_mille = announced;
        moved += run_whole(flap, 2000U + moment, 12u).moved;
      }
  EXPECT_GT(moved, 200u / kSweepStride);
}

TEST_P(Links, TheSecondOrThirdLinkIsMadeAgainWhenItsPortReturns) {
  for (const unsigned ports : {2U, 3U})
    for (Pod pod = 1; pod <= 2; ++pod)
      for (std::uint64_t seed = 1; seed <= 20; seed += kSweepStride) {
        SCOPED_TRACE(testing::Message() << ports << " ports, seed " << seed);
        Plan returns = linked(ports);
        returns.faults.push_back(spare_port(pod, milliseconds(10), milliseconds(10)));
        returns.connections.push_back(pausing(talk(200000, 200000), milliseconds(10)));
        Simulation cluster(returns, seed);
        cluster.pass(milliseconds(60));
        for (Pod side = 1; side <= 2; ++side) {
          EXPECT_GE(cluster.proxy(side).stats().link_added.get(), 3u);
          EXPECT_EQ(group_of(cluster.proxy(side)).type, "symmetric");
          EXPECT_EQ(group_of(cluster.proxy(side)).links.size(), ports);
        }
        cluster.finish();
      }
}

TEST_P(Links, OneOfThreeLinksIsLostAndRegainedAtAnyMoment) {
  std::uint64_t moved = 0;
  for (Pod pod = 1; pod <= 2; ++pod)
    for (unsigned moment = 0; moment < 40; moment += kSweepStride) {
      Plan flap = flapping(linked(3), pod, microseconds(1000 + 60 * moment));
      flap.fabric.announced_per_mille = moment % 2 == 0 ? 0 : 1000;
      const Outcome outcome = run_whole(flap, 4000U + moment, 12u);
      EXPECT_EQ(outcome.links_most, 3u) << "moment " << moment;
      moved += outcome.moved;
    }
  EXPECT_GT(moved, 100u / kSweepStride);
}

// If a final message were lost with its link, the other side would wait for a minute.
TEST_P(Links, ACloseThatDiesWithItsLinkIsRepeated) {
  for (std::uint64_t seed = 1; seed <= 60; seed += kSweepStride) {
    Plan closing = linked(2);
    for (int i = 0; i < 8; ++i) closing.connections.push_back(talk(100, 100, milliseconds(5)));
    closing.faults.push_back(
        spare_port(1 + seed % 2, milliseconds(5) + microseconds(20 * seed), seconds(1)));
    Simulation cluster(closing, seed);
    EXPECT_FALSE(cluster.run_until([] { return false; }, seconds(5)));
    for (Pod pod = 1; pod <= 2; ++pod)
      EXPECT_EQ(cluster.proxy(pod).worker()->session_count(), 0u) << "seed " << seed;
    cluster.finish();
  }
}

TEST_P(Links, OnePortAtOneSideMakesAnAsymmetricGroup) {
  Plan one = linked(2);
  one.proxies[0].ports = one.proxies[0].devices = 1;
  expect_types(one, "asymmetric_local", "asymmetric_peer");
}

TEST_P(Links, OneLinkIsAllWhereOnlyOneIsAllowed) {
  Plan single = linked(2);
  single.proxies[1].config.smc.max_links = 1;
  expect_types(single, "single", "single");
}

INSTANTIATE_TEST_SUITE_P(Devices, Links,
                         testing::Values(kAddressable, kStaged,
                                         DeviceKind{"TwoDevices", false, true},
                                         DeviceKind{"TwoSevereDevices", false, true, false},
                                         kReceiveQueueALink),
                         name_of);

}  // namespace
}  // namespace fairlead::sim
