// Goal: the agent takes its node from its own token, and writes reports and Events that a policy
// can tie to that node. Method: tokens as API servers issue them, and damaged ones; the JSON of
// both.
#include "cni/node/cluster/token_claims.h"

#include <gtest/gtest.h>

#include <string>

#include "cni/node/pods/pod_event.h"
#include "cni/node/reports/status_report.h"

namespace fairlead::cni::node {
namespace {

// As RFC 4648, section 5, has it; the test's own.
std::string base64url(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  unsigned value = 0, bits = 0;
  for (const char c : bytes) {
    value = (value << 8 | static_cast<unsigned char>(c)) & 0xffffff;
    for (bits += 8; bits >= 6; bits -= 6) text.push_back(kDigits[value >> (bits - 6) & 63]);
  }
  if (bits > 0) text.push_back(kDigits[value << (6 - bits) & 63]);
  return text;
}

std::string token(std::string_view payload) {
  return base64url(R"({"alg":"RS256","kid":"x"})") + "." + base64url(payload) + ".c2ln";
}

std::string claims(const std::string& node) {
  return R"({"aud":["https://kubernetes.default.svc"],"exp":1732665600,"kubernetes.io":{)"
         R"("namespace":"fairlead-system","node":)" +
         node + R"(,"pod":{"name":"fairlead-node-x","uid":"p-1"},"serviceaccount":{"name":"f"}}})";
}

TEST(TokenClaims, NameTheNode) {
  const auto node = node_claim(token(claims(R"({"name":"node-1.example","uid":"0a-B9"})")));
  ASSERT_TRUE(node);
  EXPECT_EQ(*node, (NodeIdentity{"node-1.example", "0a-B9"}));
  // Of each length modulo three, and with the two digits that base64 has otherwise.
  for (std::size_t length = 1; length < 8; ++length) {
    const std::string more = R"(,"x":")" + std::string(length, '?') + "\xc3\xbf\"}";
    EXPECT_TRUE(node_claim(token(claims(R"({"name":"a","uid":"b")" + more)))) << length;
  }
}

TEST(TokenClaims, NothingWithoutNodeOrFromDamagedTokens) {
  const std::string good = claims(R"({"name":"n1","uid":"u1"})");
  const std::string text = token(good);
  for (const std::string& damaged : std::initializer_list<std::string>{
           "", "secret", ".", "..", "a.b", "a." + base64url(good), base64url(good),
           "a." + base64url(good) + "=.c", "a." + base64url(good) + "+.c",
           "a. " + base64url(good) + ".c", token(""), token("{}"), token("[]"), token("null"),
           token(R"({"kubernetes.io":7})"), token(R"({"kubernetes.io":{"node":"n1"}})"),
           token(good.substr(0, good.size() - 1)), token(std::string(20'000, '[')),
           token(std::string(20'000, ' ') + good)})
    EXPECT_FALSE(node_claim(damaged)) << damaged.substr(0, 80);
  for (std::size_t end = 0; end + 5 < text.size(); ++end)
    EXPECT_FALSE(node_claim(std::string_view(text).substr(0, end))) << end;
  EXPECT_TRUE(node_claim(text));
}

TEST(TokenClaims, TakeNoOtherTextForAName) {
  for (const std::string& node : std::initializer_list<std::string>{
           R"({"name":"n1"})", R"({"uid":"u1"})", R"({"name":"","uid":"u1"})",
           R"({"name":"n1","uid":""})", R"({"name":"N1","uid":"u1"})",
           R"({"name":"n1/x","uid":"u1"})", R"({"name":"../n1","uid":"u1"})",
           R"({"name":"n..1","uid":"u1"})", R"({"name":"n1?a=b","uid":"u1"})",
           R"({"name":".n1","uid":"u"})", R"({"name":"n1-","uid":"u1"})",
           R"({"name":"n1","uid":"u\n1"})", R"({"name":"n1","uid":7})",
           R"({"name":["n1"],"uid":"u1"})",
           R"({"name":")" + std::string(254, 'a') + R"(","uid":"u1"})",
           R"({"name":"n1","uid":")" + std::string(129, 'a') + R"("})"})
    EXPECT_FALSE(node_claim(token(claims(node)))) << node;
}

TEST(TokenClaims, PrecedeTheCommandLine) {
  EXPECT_EQ(identify_node("n2", token(claims(R"({"name":"n1","uid":"u1"})"))),
            (NodeIdentity{"n1", "u1"}));
  EXPECT_EQ(identify_node("n2", "secret"), (NodeIdentity{"n2", ""}));
}

TEST(StatusReport, BelongsToTheNode) {
  EXPECT_EQ(report_path("reports", "n1"), "/api/v1/namespaces/reports/configmaps/fairlead-node-n1");
  const Json body = Json::parse(report_body("reports", {"n1", "u1"}, "{}"));
  const Json owner = {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", "n1"}, {"uid", "u1"}};
  EXPECT_EQ(body["metadata"]["ownerReferences"], Json::array({owner}));
  EXPECT_EQ(body["metadata"]["name"], "fairlead-node-n1");
  EXPECT_EQ(body["metadata"]["namespace"], "reports");
  EXPECT_FALSE(Json::parse(report_body("reports", {"n1", ""}, "{}"))["metadata"].contains(
      "ownerReferences"));
}

TEST(PodEvent, IsAboutAPodOfTheNode) {
  event::ClusterEvent made = pod_event("n1", "shop", "web-0", "u-0");
  made.reason = "FairleadRepaired";
  const Json body = Json::parse(event::cluster_event_body(made));
  EXPECT_EQ(body["source"], (Json{{"component", "fairlead-node"}, {"host", "n1"}}));
  EXPECT_EQ(body["involvedObject"]["kind"], "Pod");
  EXPECT_EQ(body["involvedObject"]["namespace"], body["metadata"]["namespace"]);
  EXPECT_EQ(body["metadata"], (Json{{"generateName", "fairlead-node."}, {"namespace", "shop"}}));
}

}  // namespace
}  // namespace fairlead::cni::node
