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

const Json kEnabled = pod_with({{"fairlead.io/inject", "enabled"}});

Json injected(const Json& pod, const Settings& with = settings()) {
  return pod.patch(decide(pod, with, false).patch);
}

TEST(Decision, WrongTypesAreNoPod) {
  for (const char* text :
       {"null", "[]", "\"pod\"", "{}", R"({"spec":null})", R"({"spec":{"containers":{}}})",
        R"({"spec":{"containers":[],"initContainers":{}}})",
        R"({"spec":{"containers":[],"resourceClaims":{}}})",
        R"({"metadata":[],"spec":{"containers":[]}})",
        R"({"metadata":{"annotations":[]},"spec":{"containers":[]}})"})
    EXPECT_EQ(decide(Json::parse(text), settings(), true).outcome, Outcome::kMalformedPod) << text;
}

TEST(Decision, WrongTypesInsideOfAPodAreSurvived) {
  for (
      const char* text :
      {R"({"metadata":null,"spec":{"containers":[]}})",
       R"({"metadata":{"annotations":{"fairlead.io/inject":null,"x":7}},"spec":{"containers":[]}})",
       R"({"spec":{"containers":[null,1,"x",{"ports":{}},{"ports":[null,{"containerPort":"x"}]}]}})",
       R"({"spec":{"containers":[],"resourceClaims":[null,1,{"name":7},{"name":["fairlead-rnic"]}]}})",
       R"({"spec":{"containers":[{"name":7}],"initContainers":null,"os":[]}})"}) {
    const Json pod = Json::parse(text);
    const Decision decision = decide(pod, settings(), true);
    ASSERT_EQ(decision.outcome, Outcome::kInjected) << text;
    const Json patched = pod.patch(decision.patch);
    EXPECT_EQ(patched["spec"]["initContainers"][0]["name"], "fairlead-proxy");
  }
}

TEST(Decision, ASecondTimeChangesNothing) {
  const Decision again = decide(injected(kEnabled), settings(), false);
  EXPECT_EQ(again.outcome, Outcome::kAlreadyInjected);
  EXPECT_TRUE(again.patch.empty());
  EXPECT_TRUE(again.warnings.empty());
}

// Another webhook prepends its init container, as vault-agent-init, and the API server asks again.
TEST(Decision, TheSidecarIsPutFirstAgain) {
  for (std::size_t in_front = 1; in_front <= 3; ++in_front) {
    Json changed = injected(kEnabled);
    Json& inits = changed["spec"]["initContainers"];
    for (std::size_t i = 0; i < in_front; ++i)
      inits.insert(inits.begin(), Json{{"name", "init-" + std::to_string(i)}});
    inits.push_back({{"name", "last"}});
    const Decision decision = decide(changed, settings(), false);
    EXPECT_EQ(decision.outcome, Outcome::kMovedFirst);
    EXPECT_TRUE(decision.warnings.empty());
    const Json moved = changed.patch(decision.patch);
    // All others keep their order, and nothing else changes.
    Json expected = changed;
    Json& order = expected["spec"]["initContainers"];
    const Json sidecar = order[in_front];
    order.erase(in_front);
    order.insert(order.begin(), sidecar);
    EXPECT_EQ(moved, expected);
    EXPECT_EQ(moved["spec"]["initContainers"][0]["name"], "fairlead-proxy");
    EXPECT_EQ(decide(moved, settings(), false).outcome, Outcome::kAlreadyInjected);
  }
}

TEST(Decision, AContainerOfTheUserStaysWhereItIs) {
  Json pod = kEnabled;
  pod["spec"]["initContainers"] = Json::parse(R"([{"name":"a"},{"name":"fairlead-proxy"}])");
  EXPECT_EQ(decide(pod, settings(), false).outcome, Outcome::kAlreadyInjected);
  pod["metadata"]["annotations"]["fairlead.io/status"] = "{}";
  pod["metadata"]["annotations"]["fairlead.io/inject"] = "disabled";
  EXPECT_EQ(decide(pod, settings(), true).outcome, Outcome::kDisabled);
}

TEST(Decision, AnAnnotationWithoutQuotesIsToldAndNotPassedOver) {
  for (const auto& [key, value, shown] :
       {std::tuple("fairlead.io/inject", Json(true), "fairlead.io/inject: true"),
        {"fairlead.io/max-links", Json(2), "fairlead.io/max-links: 2"},
        {"fairlead.io/fallback", Json::array({1}), "fairlead.io/fallback: ?"}}) {
    Json pod = kEnabled;
    pod["metadata"]["annotations"][key] = value;
    const Decision decision = decide(pod, settings(), false);
    EXPECT_EQ(decision.outcome, Outcome::kBadAnnotation) << key;
    EXPECT_TRUE(decision.patch.empty());
    EXPECT_THAT(decision.warnings,
                testing::Contains(std::string(shown) + " is no text; put it in quotes"));
  }
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
  const Json patched = injected(kEnabled, own);
  EXPECT_EQ(
      patched["metadata"]["annotations"]["ulimits.nri.containerd.io/container.fairlead-proxy"],
      "- type: memlock\n  hard: 67108864\n  soft: 67108864\n");
  const Json& sidecar = patched["spec"]["initContainers"][0];
  EXPECT_EQ(sidecar["resources"]["limits"]["rdma/a"], "1");
  EXPECT_EQ(sidecar["env"].back(), Json({{"name", "FAIRLEAD_SMC_UEIDS"}, {"value", "SHOP"}}));
  EXPECT_THAT(sidecar["env"].dump(),
              testing::HasSubstr(R"({"name":"SMC_PNET_ID","value":"NETA"})"));
}

TEST(Decision, APodsRequestForAnRnicReplacesThatOfTheSettings) {
  constexpr const char* kTemplate = "fairlead.io/rnic-claim-template";
  constexpr const char* kResource = "fairlead.io/rnic-resource";
  struct Row {
    const char* key;
    const char* value;
    bool own;              // the pod has an entry of its own in resourceClaims
    const char* resource;  // of the settings, as the next one
    const char* claim_template;
    const char* got_resource;
    const char* got_claim;  // its template, or that of the pod
  };
  for (const Row& row : {
           Row{"fairlead.io/fallback", "allow", false, "", "usual", "", "usual"},
           Row{kTemplate, "other", false, "", "usual", "", "other"},
           Row{kTemplate, "other", false, "rdma/a", "", "", "other"},
           Row{kResource, "rdma/b", false, "", "usual", "rdma/b", ""},
           Row{kTemplate, "none", false, "", "usual", "", ""},
           Row{kTemplate, "none", false, "rdma/a", "", "rdma/a", ""},
           Row{kTemplate, "none", true, "", "usual", "", ""},
           Row{kResource, "none", false, "", "usual", "", "usual"},
           Row{kResource, "none", false, "rdma/a", "", "", ""},
           Row{"fairlead.io/fallback", "allow", true, "", "usual", "", "fairlead-rnic"},
           Row{"fairlead.io/fallback", "allow", true, "rdma/a", "", "", "fairlead-rnic"},
           Row{kResource, "none", true, "rdma/a", "", "", "fairlead-rnic"},
       }) {
    SCOPED_TRACE(testing::Message() << row.key << " " << row.value << " " << row.own << " "
                                    << row.resource << row.claim_template);
    Settings own = settings();
    own.rnic_resource = row.resource;
    own.rnic_claim_template = row.claim_template;
    Json pod = pod_with({{"fairlead.io/inject", "enabled"}, {row.key, row.value}});
    if (row.own)
      pod["spec"]["resourceClaims"] =
          Json::array({{{"name", "fairlead-rnic"}, {"resourceClaimName", "mine"}}});
    const Decision decision = decide(pod, own, false);
    ASSERT_EQ(decision.outcome, Outcome::kInjected);
    const Json spec = pod.patch(decision.patch)["spec"];
    const Json& resources = spec["initContainers"][0]["resources"];
    const std::string resource = row.got_resource;
    const std::string claim = row.got_claim;
    EXPECT_EQ(resources.contains("limits"), !resource.empty());
    if (!resource.empty()) {
      EXPECT_EQ(resources["limits"][resource], "1");
    }
    EXPECT_EQ(resources.value("claims", Json()),
              claim.empty() ? Json() : Json::parse(R"([{"name":"fairlead-rnic"}])"));
    const std::string variable =
        R"({"name":"FAIRLEAD_DEVICES_VERBS_CLAIM","value":")" + claim + "\"}";
    EXPECT_EQ(spec["initContainers"][0]["env"].dump().find(variable) != std::string::npos,
              !claim.empty());
    if (row.own)
      EXPECT_EQ(spec["resourceClaims"], pod["spec"]["resourceClaims"]);
    else if (claim.empty())
      EXPECT_FALSE(spec.contains("resourceClaims"));
    else
      EXPECT_EQ(spec["resourceClaims"],
                Json::array({{{"name", "fairlead-rnic"}, {"resourceClaimTemplateName", claim}}}));
  }
}

TEST(Decision, EveryOutcomeHasAName) {
  for (const Outcome outcome : outcomes()) EXPECT_NE(to_string(outcome), "");
}

}  // namespace
}  // namespace fairlead::injector
