// Goal: the PNET of a pod, its note, and the path of its cgroup. Method: tables of cases for the
// pure functions.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "cni/pod_cgroup.h"
#include "cni/pod_plan.h"
#include "cni/redirect.h"
#include "cni/rnics.h"

namespace fairlead::cni {
namespace {

const RnicPort kFirst{{"mlx5_0", PortNumber{1}}, "ens1f0", "0a1b2c3d4e5f", {}};
const RnicPort kSecond{{"mlx5_1", PortNumber{1}}, "ens1f1", "0a1b2c3d4e60", {}};
const RnicPort kThird{{"rxe0", PortNumber{1}}, "eth0", "525400000001", {}};
const RnicPortName kThirdName{"mlx5_2", PortNumber{1}};

NodeConfig configured() {
  NodeConfig config;
  config.pnets = {{"NETA", {kFirst.name}, {}}, {"NETB", {kSecond.name, kThirdName}, {}}};
  return config;
}

TEST(Pnet, AnnotationChoosesAmongThoseOfTheNode) {
  Wishes wishes;
  wishes.pnet_id = "NETB";
  const PnetChoice choice = choose_pnet(configured(), wishes, {kFirst, kSecond});
  EXPECT_EQ(choice.note, (HandOver{"NETB", configured().pnets[1].rnics}));
  EXPECT_EQ(choice.source, "annotation");
  EXPECT_EQ(choose_pnet(configured(), wishes, {kFirst}).hint,
            "no RNIC of PNET NETB is on this node");
  wishes.pnet_id = "NETC";
  EXPECT_EQ(choose_pnet(configured(), wishes, {kFirst}).hint,
            "PNET NETC is not one of this node's");
}

TEST(Pnet, FirstConfiguredWithAnRnicElse) {
  EXPECT_EQ(choose_pnet(configured(), {}, {kSecond}).note,
            (HandOver{"NETB", configured().pnets[1].rnics}));
  EXPECT_EQ(choose_pnet(configured(), {}, {}).hint, "no configured RNIC is on this node");
}

TEST(Pnet, NamedAfterTheRnicWhereNothingIsConfigured) {
  const PnetChoice choice = choose_pnet({}, {}, {kFirst, kSecond});
  EXPECT_EQ(choice.note, (HandOver{"0A1B2C3D4E5F", {}}));
  EXPECT_EQ(choice.source, "rnic");
  EXPECT_EQ(choose_pnet({}, {}, {}).hint, "this node has no RNIC");
  EXPECT_EQ(choose_pnet({}, {}, {{kFirst.name, "", ""}}).source, "none");
}

TEST(Pnet, NoneWhenTheNodeUsesNoRnics) {
  NodeConfig config = configured();
  config.use_rnics = false;
  EXPECT_EQ(choose_pnet(config, {}, {kFirst}).source, "none");
}

TEST(Pnet, NamesPortsThatMayComeUpLater) {
  NodeConfig config;
  config.pnets = {{"NETA", {kFirst.name, kThirdName}, {}}};
  EXPECT_EQ(choose_pnet(config, {}, {kFirst}).note, (HandOver{"NETA", {kFirst.name, kThirdName}}));
}

Gid address(const char* text) {
  Gid gid;
  EXPECT_EQ(inet_pton(AF_INET6, text, gid.bytes.data()), 1) << text;
  return gid;
}

TEST(Pnet, NamesAddressesOfTheNode) {
  RnicPort first = kFirst, second = kSecond;
  first.gids = {address("::ffff:10.9.0.1"), address("2001:db8::1")};
  second.gids = {address("::ffff:10.9.1.1")};
  EXPECT_EQ(choose_pnet(configured(), {}, {first, second}).note.gids,
            std::vector<Gid>{first.gids[0]});
  // Ports without a list in the configuration are all of one network.
  EXPECT_EQ(choose_pnet({}, {}, {first, kThird, second}).note.gids,
            (std::vector<Gid>{first.gids[0], second.gids[0]}));
}

TEST(Pnet, AddressesAreTheNodesOwnByAddress) {
  const std::vector<NodeAddress> addresses = {{"lo", address("::1")},
                                              {"ens1f0", address("::ffff:10.9.0.1")},
                                              {"ens1f0", address("2001:db8::1")},
                                              {"ens1f0", address("fe80::1")},
                                              {"ens1f0.7", address("::ffff:10.7.0.1")},
                                              {"eth0", address("::ffff:192.0.2.1")}};
  const std::vector<TableGid> table = {
      {address("fe80::1"), "RoCE v2"},
      {address("2001:db8::1"), "RoCE v2"},
      {address("::ffff:10.9.0.77"), "RoCE v2"},  // of a pod's macvlan
      {address("::ffff:10.7.0.1"), "RoCE v2"},   // of a VLAN of the node
      {address("::ffff:10.9.0.1"), "IB/RoCE v1"},
      {address("::ffff:10.9.0.1"), "RoCE v2"}};
  EXPECT_EQ(own_gids(table, "ens1f0", addresses),
            (std::vector<Gid>{address("::ffff:10.9.0.1"), address("2001:db8::1")}));
  EXPECT_EQ(own_gids(table, "ens1f0.7", addresses), std::vector<Gid>{address("::ffff:10.7.0.1")});
  EXPECT_EQ(own_gids(table, "eth0", addresses), std::vector<Gid>());
  EXPECT_EQ(own_gids({}, "ens1f0", addresses), std::vector<Gid>());
}

TEST(Pnet, TwoNetworksThatNameOneRnic) {
  const auto read = [](const char* pnets) {
    const auto found = read_node_config(Json{{"pnet", Json::parse(pnets)}});
    EXPECT_TRUE(found) << pnets;
    return found.value_or(NodeConfigRead{});
  };
  const NodeConfigRead partly =
      read(R"([{"id":"NETA","rnics":["mlx5_0/1"]},{"id":"NETB","rnics":["mlx5_1/1","mlx5_0/1"]}])");
  ASSERT_EQ(partly.warnings.size(), 1U);
  EXPECT_EQ(partly.warnings[0],
            "pnet[1].rnics: \"mlx5_0/1\" is in pnet[0] (NETA), which keeps it; allowed: each port "
            "in one PNET");
  ASSERT_EQ(partly.config.pnets.size(), 2U);
  EXPECT_EQ(partly.config.pnets[1].rnics, std::vector<RnicPortName>{kSecond.name});
  const NodeConfigRead wholly =
      read(R"([{"id":"NETA","rnics":["mlx5_0/1"]},{"id":"NETB","rnics":["mlx5_0/1"]}])");
  EXPECT_EQ(wholly.warnings.size(), 1U);
  EXPECT_EQ(wholly.config.pnets.size(), 1U);
  EXPECT_TRUE(read(R"([{"id":"NETA","rnics":["mlx5_0/1"]},{"id":"NETB","rnics":["mlx5_0/2"]}])")
                  .warnings.empty());
}

TEST(Cgroup, IsFoundBelowTheMount) {
  constexpr const char* kMounts =
      "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
      "32 23 0:28 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw\n";
  const auto at = [&](const char* path) {
    const Result<std::string> found = pod_cgroup(path, kMounts);
    return found ? *found : std::string(found.error().what);
  };
  EXPECT_EQ(at("/kubepods/pod1"), "/sys/fs/cgroup/unified/kubepods/pod1");
  EXPECT_EQ(at("kubepods/pod1"), "/sys/fs/cgroup/unified/kubepods/pod1");
  EXPECT_EQ(at("kubepods-burstable-pod1.slice"),
            "/sys/fs/cgroup/unified/kubepods.slice/kubepods-burstable.slice/"
            "kubepods-burstable-pod1.slice");
  for (const char* path : {"/../x", "a/../../b", ".."})
    EXPECT_EQ(at(path), "runtimeConfig.cgroupPath") << path;
  EXPECT_EQ(at(""), "the runtime names no cgroup of the pod");
  EXPECT_FALSE(pod_cgroup("/x", "31 23 0:27 / /sys/fs/cgroup rw - cgroup cgroup rw\n"));
}

TEST(Redirect, DigestChangesWithThePlan) {
  RedirectPlan plan;
  plan.proxy_uid = 2201;
  const std::string before = digest(plan);
  EXPECT_EQ(digest(plan), before);
  plan.skip_outbound = port_interval(80);
  EXPECT_NE(digest(plan), before);
}

TEST(Redirect, DifferenceNamesObjects) {
  const TableReading before = {"chain inbound 1", "rule inbound 1 a", "rule inbound 2 b"};
  const TableReading after = {"chain inbound 1", "rule inbound 1 c", "set x 5"};
  EXPECT_EQ(difference(before, after),
            "rule inbound 1 has changed, rule inbound 2 is missing, set x was added");
  EXPECT_EQ(difference(before, before), "");
}

}  // namespace
}  // namespace fairlead::cni
