// Goal: which PNET a pod gets, what it is told, and where its cgroup is. Method: tables of cases
// over the pure functions.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "cni/pod_cgroup.h"
#include "cni/pod_plan.h"
#include "cni/redirect.h"

namespace fairlead::cni {
namespace {

const RnicPort kFirst{{"mlx5_0", PortNumber{1}}, "ens1f0", "0a1b2c3d4e5f"};
const RnicPort kSecond{{"mlx5_1", PortNumber{1}}, "ens1f1", "0a1b2c3d4e60"};
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
