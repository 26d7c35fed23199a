// SMC-R versions 1 and 2 between proxies: the version that a pair agrees on, and conditions that
// prevent version 1.
#include "sim/scenario.h"

namespace fairlead::sim {
namespace {

using config::SmcVersion;
using R = FallbackReason;

constexpr int kConnections = 4;

class Versions : public Scenario {
 protected:
  // Two pods whose proxies are restricted to a version.
  Plan pair(SmcVersion client, SmcVersion server) const {
    Plan plan = this->plan();
    plan.proxies[0].config.smc.version = client;
    plan.proxies[1].config.smc.version = server;
    for (int i = 0; i < kConnections; ++i)
      plan.connections.push_back(talk(30000, 30000, milliseconds(i)));
    return plan;
  }
  // All of its connections are complete, over TCP, because that end declines.
  static void expect_declined(const Plan& plan, R reason, Pod by = 2) {
    Simulation cluster(plan);
    cluster.finish_whole(0U);
    EXPECT_EQ(cluster.fallbacks(by, Side::kLocal, reason), kConnections);
    EXPECT_EQ(cluster.fallbacks(peer_of(by), Side::kPeer, reason), kConnections);
  }
};

TEST_P(Versions, TheNewestInCommonIsSpoken) {
  struct Case {
    SmcVersion client, server;
    unsigned expected;
  };
  for (const Case& each :
       {Case{SmcVersion::kAuto, SmcVersion::kAuto, 2}, Case{SmcVersion::kAuto, SmcVersion::kTwo, 2},
        Case{SmcVersion::kTwo, SmcVersion::kAuto, 2}, Case{SmcVersion::kTwo, SmcVersion::kTwo, 2},
        Case{SmcVersion::kAuto, SmcVersion::kOne, 1}, Case{SmcVersion::kOne, SmcVersion::kAuto, 1},
        Case{SmcVersion::kOne, SmcVersion::kOne, 1}}) {
    Plan plan = pair(each.client, each.server);
    for (ProxySettings& settings : plan.proxies) settings.roce_v1_vlan = 0;
    const Outcome outcome = run_whole(plan, 1, 2U * kConnections);
    EXPECT_EQ(outcome.speakers_v1 != 0, each.expected == 1);
    EXPECT_EQ(outcome.speakers_v2 != 0, each.expected == 2);
  }
}

TEST_P(Versions, OneIsOfferedBesideTwoFromRoceV1GidsOnly) {
  expect_declined(pair(SmcVersion::kAuto, SmcVersion::kOne), R::kPeerNoSmc);
}

TEST_P(Versions, WithoutAVersionInCommonItIsTcp) {
  expect_declined(pair(SmcVersion::kOne, SmcVersion::kTwo), R::kPeerNoSmc);
  expect_declined(pair(SmcVersion::kTwo, SmcVersion::kOne), R::kPeerNoSmc);
}

TEST_P(Versions, OneServesWhereTwoHasNoUeidInCommon) {
  Plan plan = pair(SmcVersion::kAuto, SmcVersion::kAuto);
  plan.proxies[1].config.smc.ueids = {"OTHER"};
  for (ProxySettings& settings : plan.proxies) settings.roce_v1_vlan = 0;
  const Outcome outcome = run(plan, 1);
  EXPECT_EQ(outcome.over_smc, 2U * kConnections);
  EXPECT_NE(outcome.speakers_v1, 0U);
  EXPECT_EQ(outcome.speakers_v2, 0U);
  // Where version 1 does not help, the reason is that of version 2.
  plan.proxies[1].subnet_bits = kSubnetBits - 8;
  expect_declined(plan, R::kNoDevice);
}

TEST_P(Versions, OneNeedsACommonSubnet) {
  for (std::size_t i = 0; i < 2; ++i) {
    Plan plan = pair(SmcVersion::kOne, SmcVersion::kOne);
    plan.proxies[i].subnet_bits = kSubnetBits - 8;
    expect_declined(plan, R::kPrefixMismatch);
  }
}

TEST_P(Versions, OneNeedsAnInterfaceThatIsKnown) {
  Plan plan = pair(SmcVersion::kOne, SmcVersion::kOne);
  plan.proxies[1].subnet_bits = 0;
  expect_declined(plan, R::kVlan);
  plan = pair(SmcVersion::kOne, SmcVersion::kOne);
  plan.proxies[0].subnet_bits = 0;
  expect_declined(plan, R::kConfigError, 1);
}

TEST_P(Versions, OneNeedsACommonVlan) {
  struct Case {
    std::uint16_t client, server;
    bool common;
  };
  for (const Case& each : {Case{0, 0, true}, Case{42, 42, true}, Case{42, 43, false},
                           Case{0, 42, false}, Case{42, 0, false}}) {
    Plan plan = pair(SmcVersion::kOne, SmcVersion::kOne);
    plan.proxies[0].roce_v1_vlan = each.client;
    plan.proxies[1].roce_v1_vlan = each.server;
    if (!each.common)
      expect_declined(plan, R::kVlan);
    else
      EXPECT_EQ(run(plan, 1).over_smc, 2U * kConnections);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Versions, testing::Values(kAddressable, kStaged), name_of);

}  // namespace
}  // namespace fairlead::sim
