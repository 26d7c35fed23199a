// Goal: settings are accepted as a whole, or refused with field, value and allowed values.
#include "injector/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "injector/bounded_json.h"
#include "injector/sidecar.h"

namespace fairlead::injector {
namespace {

using testing::HasSubstr;

Settings parsed(const char* text) {
  const auto settings = parse_settings(text);
  EXPECT_TRUE(settings) << settings.error();
  return settings.value_or(Settings());
}

TEST(Settings, OnlyTheImageHasNoDefault) {
  const Settings settings = parsed(R"({"image":"a"})");
  EXPECT_EQ(settings.image, "a");
  EXPECT_EQ(settings.admin_port, kubernetes::kAdminPort);
}

TEST(Settings, MistakesAreNamed) {
  const std::pair<const char*, const char*> rows[] = {
      {"{}", "image: missing"},
      {"[]", "allowed: settings"},
      {"{", "not JSON"},
      {R"({"image":""})", "image: \"\" is not allowed; allowed: an image reference"},
      {R"({"image":"a","fallback":"maybe"})",
       "fallback: \"maybe\" is not allowed; allowed: allow or deny"},
      {R"({"image":"a","seccompProfile":"Unconfined"})",
       "seccompProfile: \"Unconfined\" is not allowed; allowed: RuntimeDefault or Localhost"},
      {R"({"image":"a","concurrency":0})",
       "concurrency: 0 is not allowed; allowed: a whole number from 1 to 64"},
      {R"({"image":"a","adminPort":80})", "adminPort: 80 is not allowed"},
      {R"({"image":"a","env":[{"name":"X"}]})", "env: {\"name\":\"X\"} is not allowed"},
      {R"({"image":"a","smc":{"maxLinks":4}})",
       "smc.maxLinks: 4 is not allowed; allowed: a whole number from 1 to 3, or 0 for two"},
      {R"({"image":"a","smc":{"trafficClass":256}})",
       "smc.trafficClass: 256 is not allowed; allowed: a whole number from 0 to 255"},
      {R"({"image":"a","smc":{"serviceLevel":"3"}})", "smc.serviceLevel: \"3\" is not allowed"},
      {R"({"image":"a","smc":{"serviceLevel":-1}})", "smc.serviceLevel: -1 is not allowed"},
      {R"({"image":"a","smc":{"pathMtu":1500}})",
       "smc.pathMtu: 1500 is not allowed; allowed: 256, 512, 1024, 2048 or 4096"},
      {R"({"image":"a","smc":{"tos":1}})",
       "smc: \"tos\" is no setting; allowed: maxLinks, trafficClass, serviceLevel"},
      {R"({"image":"a","smc":[]})", "smc: [] is not allowed; allowed: an object of maxLinks"},
      {R"({"image":"a","colour":"red"})", "\"colour\" is no setting; allowed: "},
      {R"({"image":"a","c\u001b":"red"})", "\"c\\u001b\" is no setting; allowed: "},
      {R"({"image":"a","smc":{"a\u202e":1}})", "smc: \"a\\u202e\" is no setting; allowed: "},
      {R"({"image":"a","memoryLimit":"2049Gi"})", "memoryLimit: \"2049Gi\" is not allowed"},
      {R"({"image":"a","cpuRequest":"2","cpuLimit":"1"})",
       "cpuRequest: \"2\" is not allowed; allowed: at most cpuLimit"},
      {R"({"image":"a","memoryLimit":"1Mi"})", "memoryLimit: \"1Mi\" is not allowed"},
      {R"({"image":"a","rnicClaimTemplate":"rdma/nic"})",
       "rnicClaimTemplate: \"rdma/nic\" is not allowed; allowed: the name of a "
       "ResourceClaimTemplate"},
      {R"({"image":"a","rnicClaimTemplate":"nic","rnicResource":"rdma/a"})",
       "rnicClaimTemplate: \"nic\" is not allowed with rnicResource: \"rdma/a\"; allowed: one of"},
  };
  for (const auto& [text, error] : rows) {
    const auto settings = parse_settings(text);
    ASSERT_FALSE(settings) << text;
    EXPECT_THAT(settings.error(), HasSubstr(error));
  }
}

TEST(Settings, TheSeccompProfileIsThatOfTheSidecar) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"image":"a"})", R"({"type":"RuntimeDefault"})"},
      {R"({"image":"a","seccompProfile":"RuntimeDefault"})", R"({"type":"RuntimeDefault"})"},
      {R"({"image":"a","seccompProfile":"Localhost"})",
       R"({"type":"Localhost","localhostProfile":"fairlead/fairlead-proxy.json"})"}};
  for (const auto& [text, profile] : rows)
    EXPECT_EQ(sidecar_container(parsed(text), {}, {})["securityContext"]["seccompProfile"],
              Json::parse(profile));
}

TEST(Settings, NumbersOfSmcBecomeVariablesAndAnAnnotationOverrulesThem) {
  const Settings settings = parsed(
      R"({"image":"a","smc":{"trafficClass":106,"retryCount":6,"rnrRetry":3,"ackTimeout":14,"maxLinks":3,"deferBytes":0}})");
  const auto variables = [&](const Wishes& wishes) {
    std::map<std::string, std::string> found;
    const Json container = sidecar_container(settings, wishes, {});
    for (const Json& entry : container.at("env"))
      if (text_of(entry.at("name")).starts_with("FAIRLEAD_SMC_"))
        found[text_of(entry.at("name"))] = text_of(entry.at("value"));
    return found;
  };
  using Variables = std::map<std::string, std::string>;
  EXPECT_EQ(variables({}), (Variables{{"FAIRLEAD_SMC_MAX_LINKS", "3"},
                                      {"FAIRLEAD_SMC_DEFER_BYTES", "0"},
                                      {"FAIRLEAD_SMC_TRAFFIC_CLASS", "106"},
                                      {"FAIRLEAD_SMC_RNR_RETRY", "3"},
                                      {"FAIRLEAD_SMC_ACK_TIMEOUT", "14"}}));
  EXPECT_EQ(variables({{"max-links", "0"},
                       {"defer-bytes", "65536"},
                       {"traffic-class", "0"},
                       {"path-mtu", "512"},
                       {"rnr-retry", "7"}}),
            (Variables{{"FAIRLEAD_SMC_PATH_MTU", "512"}, {"FAIRLEAD_SMC_ACK_TIMEOUT", "14"}}));
}

TEST(Settings, VariablesKeepTheirOrder) {
  const Settings settings =
      parsed(R"({"image":"a","env":[{"name":"B","value":"2"},{"name":"A","value":"1"}]})");
  ASSERT_EQ(settings.variables.size(), 2U);
  EXPECT_EQ(settings.variables[0].first, "B");
}

}  // namespace
}  // namespace fairlead::injector
