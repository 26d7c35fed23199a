// Goal: the decision never fails for a pod of any shape, and its patch can be applied. Pods that
// get a sidecar are in golden_test.cc.
#include "injector/decision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fairlead::injector {
namespace {

Settings settings() {
  Settings made;
  made.image = "registry.example/fairlead:1";
  return made;
}

Json pod_with(const Json& annotations) {
  return {{"metadata", {{"annotations", annotations}}},
          {"spec", {{"containers", Json::array({{{"name", "app"}}})}}}};
}

TEST(Decision, WrongTypesAreNoPod) {
  for (const char* text :
       {"null", "[]", "\"pod\"", "{}", R"({"spec":null})", R"({"spec":{"containers":{}}})",
        R"({"spec":{"containers":[],"initContainers":{}}})",
        R"({"metadata":[],"spec":{"containers":[]}})",
        R"({"metadata":{"annotations":[]},"spec":{"containers":[]}})"})
    EXPECT_EQ(decide(Json::parse(text), settings(), true).outcome, Outcome::kMalformedPod) << text;
}

TEST(Decision, WrongTypesInsideOfAPodAreSurvived) {
  for (
      const char* text :
      {R"({"metadata":null,"spec":{"containers":[]}})",
       R"({"metadata":{"annotations":{"fairlead.io/inject":7}},"spec":{"containers":[]}})",
       R"({"spec":{"containers":[null,1,"x",{"ports":{}},{"ports":[null,{"containerPort":"x"}]}]}})",
       R"({"spec":{"containers":[{"name":7}],"initContainers":null,"os":[]}})"}) {
    const Json pod = Json::parse(text);
    const Decision decision = decide(pod, settings(), true);
    ASSERT_EQ(decision.outcome, Outcome::kInjected) << text;
    const Json patched = pod.patch(decision.patch);
    EXPECT_EQ(patched["spec"]["initContainers"][0]["name"], "fairlead-proxy");
  }
}

TEST(Decision, ASecondTimeChangesNothing) {
  const Json pod = pod_with({{"fairlead.io/inject", "enabled"}});
  const Json once = pod.patch(decide(pod, settings(), false).patch);
  const Decision again = decide(once, settings(), false);
  EXPECT_EQ(again.outcome, Outcome::kAlreadyInjected);
  EXPECT_TRUE(again.patch.empty());
  EXPECT_TRUE(again.warnings.empty());
}

TEST(Decision, ARefusalOfTheUserIsNoWarning) {
  const Decision decision = decide(
      pod_with({{"fairlead.io/inject", "disabled"}, {"fairlead.io/x", "y"}}), settings(), true);
  EXPECT_EQ(decision.outcome, Outcome::kDisabled);
  EXPECT_TRUE(decision.warnings.empty());
}

TEST(Decision, SettingsReachTheSidecar) {
  Settings own = settings();
  own.rnic_resource = "rdma/a";
  own.memlock = "64Mi";
  own.pnet_id = "NETA";
  own.variables = {{"FAIRLEAD_SMC_UEIDS", "SHOP"}};
  const Json pod = pod_with({{"fairlead.io/inject", "enabled"}});
  const Json patched = pod.patch(decide(pod, own, false).patch);
  EXPECT_EQ(
      patched["metadata"]["annotations"]["ulimits.nri.containerd.io/container.fairlead-proxy"],
      "- type: memlock\n  hard: 67108864\n  soft: 67108864\n");
  const Json& sidecar = patched["spec"]["initContainers"][0];
  EXPECT_EQ(sidecar["resources"]["limits"]["rdma/a"], "1");
  EXPECT_EQ(sidecar["env"].back(), Json({{"name", "FAIRLEAD_SMC_UEIDS"}, {"value", "SHOP"}}));
  EXPECT_THAT(sidecar["env"].dump(),
              testing::HasSubstr(R"({"name":"SMC_PNET_ID","value":"NETA"})"));
}

TEST(Decision, EveryOutcomeHasAName) {
  for (const Outcome outcome : outcomes()) EXPECT_NE(to_string(outcome), "");
}

}  // namespace
}  // namespace fairlead::injector
