// Goal: the fields that repair needs are read from a list of pods of any shape, and labels are
// Fairlead's only.
#include "cni/node/pods/node_pods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cni/node/cluster/node_label.h"
#include "cni/node/pods/pod_answers.h"
#include "cni/plugin/json_text.h"

namespace fairlead::cni::node {
namespace {

using testing::ElementsAre;

Json pod() {
  return Json::parse(R"({
    "metadata": {"namespace": "shop", "name": "web-0", "uid": "u-1",
                 "annotations": {"fairlead.io/inject": "enabled", "odd": 1}},
    "spec": {},
    "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}, {}],
               "initContainerStatuses": [
                 {"name": "fairlead-proxy", "started": true, "state": {"running": {}}}]}})");
}

std::string list(const Json& items, const char* next = "") {
  return to_text(Json{{"kind", "PodList"}, {"metadata", {{"continue", next}}}, {"items", items}});
}

NodePod read(const Json& object) {
  const auto page = parse_pod_page(list(Json::array({object})));
  EXPECT_TRUE(page);
  EXPECT_EQ(page->pods.size(), 1u);
  return page->pods.at(0);
}

std::string name_of(const NodePod& pod) { return pod.name_space + "/" + pod.name + "/" + pod.uid; }

TEST(NodePods, AreReadFromTheirList) {
  const auto page = parse_pod_page(list(Json::array({pod(), pod()}), "more"));
  ASSERT_TRUE(page) << page.error();
  EXPECT_EQ(page->next, "more");
  ASSERT_EQ(page->pods.size(), 2u);
  const NodePod& one = page->pods.front();
  EXPECT_EQ(name_of(one), "shop/web-0/u-1");
  EXPECT_EQ(one.annotations, (StringMap{{"fairlead.io/inject", "enabled"}}));
  EXPECT_THAT(one.addresses, ElementsAre("10.0.0.1", "fd00::1"));
  EXPECT_TRUE(one.sidecar_runs);
  // On the node's network it has no address of its own.
  Json object = pod();
  object["spec"]["hostNetwork"] = true;
  EXPECT_TRUE(read(object).addresses.empty());
}

TEST(NodePods, TheSidecarRunsOnceTheKubeletHasSeenItReady) {
  for (const auto& [pointer, value] : std::map<std::string, Json>{
           {"/status/phase", "Pending"},
           {"/status/initContainerStatuses/0/started", false},
           {"/status/initContainerStatuses/0/name", "other"},
           {"/status/initContainerStatuses/0/state", Json{{"waiting", Json::object()}}},
           {"/status/initContainerStatuses", 1},
           {"/status", nullptr}}) {
    Json object = pod();
    object[Json::json_pointer(pointer)] = value;
    EXPECT_FALSE(read(object).sidecar_runs) << pointer;
  }
  Json object = pod();
  object["status"]["containerStatuses"] = object["status"]["initContainerStatuses"];
  object["status"].erase("initContainerStatuses");
  EXPECT_TRUE(read(object).sidecar_runs);
}

TEST(NodePods, WhatIsNoListOfPodsIsAnError) {
  for (const auto* text : {"", "{}", "[]", "{\"kind\":\"Status\"}", "{\"kind\":1}"})
    EXPECT_FALSE(parse_pod_page(text)) << text;
  EXPECT_FALSE(parse_pod_page(std::string(kPodPageBytesMax + 1, ' ')));
  const auto odd = parse_pod_page(
      R"({"kind":"PodList","items":[1,null,{},{"metadata":{"name":"x"}},{"metadata":[]}]})");
  ASSERT_TRUE(odd);
  EXPECT_TRUE(odd->pods.empty());
}

TEST(NodePods, AListOfMetadataIsOne) {
  const Json item = {{"kind", "PartialObjectMetadata"}, {"metadata", pod()["metadata"]}};
  const auto page = parse_pod_page(
      to_text(Json{{"kind", "PartialObjectMetadataList"}, {"items", Json::array({item})}}));
  ASSERT_TRUE(page) << page.error();
  ASSERT_EQ(page->pods.size(), 1u);
  EXPECT_EQ(page->pods[0].uid, "u-1");
  EXPECT_EQ(page->pods[0].annotations, (StringMap{{"fairlead.io/inject", "enabled"}}));
  EXPECT_TRUE(page->pods[0].addresses.empty());
  EXPECT_FALSE(page->pods[0].sidecar_runs);
}

TEST(NodePods, ManagedFieldsOfAnyDepthAndCountStopNobody) {
  Json deep = Json::object();
  for (int i = 0; i < 200; ++i) deep = Json{{"f:a", std::move(deep)}};
  Json many = Json::array();
  for (std::size_t i = 0; i <= kPodPageBytesMax / 8; ++i) many.push_back(0);
  for (const Json& fields : {deep, many}) {
    Json object = pod();
    object["metadata"]["managedFields"] = Json::array({Json{{"fieldsV1", fields}}});
    EXPECT_EQ(read(object).uid, "u-1");
  }
}

TEST(NodePods, TheBeginningOfAPageNamesItsPod) {
  const std::string text =
      R"({"kind":"PartialObjectMetadataList","metadata":{"continue":"more"},"items":[{"metadata":)"
      R"({"name":"web-0","namespace":"shop","uid":"u-1","annotations":{"fairlead.io/status":"{}",)"
      R"("blob":"xxxxxxx)";
  const auto page = parse_page_beginning(text, "it is long");
  ASSERT_TRUE(page) << page.error();
  EXPECT_EQ(page->next, "more");
  ASSERT_EQ(page->pods.size(), 1u);
  const NodePod& one = page->pods[0];
  EXPECT_EQ(name_of(one) + ": " + one.unread, "shop/web-0/u-1: it is long");
  EXPECT_TRUE(one.annotations.empty());  // of which some may be missing
  for (const std::size_t length : {0u, 10u, 60u, 110u, 125u})
    EXPECT_FALSE(parse_page_beginning(text.substr(0, length), "it is long")) << length;
  EXPECT_EQ(too_long("its metadata", "20", 10),
            "its metadata is 20 bytes long, and 10 are allowed");
  EXPECT_EQ(too_long("its metadata", "", 10), "its metadata is longer than the allowed 10 bytes");
}

TEST(NodePods, TheNextPageIsAskedForWithWhatTheServerSaid) {
  EXPECT_EQ(pod_page_path("n-1.example", 32, ""),
            "/api/v1/pods?fieldSelector=spec.nodeName%3Dn-1.example&limit=32");
  EXPECT_EQ(pod_page_path("n", 1, "a+/=&b"),
            "/api/v1/pods?fieldSelector=spec.nodeName%3Dn&limit=1&continue=a%2B%2F%3D%26b");
}

TEST(PodAnswers, HaveOurAnnotationsOfTheVeryPod) {
  const PodQuestion question{"shop", "web-0", "u-1"};
  EXPECT_EQ(answer_about(question, parse_pod(to_text(pod())), "/kubepods/podu-1"),
            R"({"annotations":{"fairlead.io/inject":"enabled"},"cgroup":"/kubepods/podu-1"})");
  EXPECT_EQ(answer_about({"shop", "web-0", ""}, parse_pod(to_text(pod())), ""),
            R"({"annotations":{"fairlead.io/inject":"enabled"}})");
  EXPECT_EQ(answer_about({"shop", "web-0", "u-2"}, parse_pod(to_text(pod())), ""),
            R"({"error":"another pod by now"})");
  NodePod unread;
  unread.unread = "it is long";
  EXPECT_EQ(answer_about(question, unread, "/x"), R"({"error":"it is long","unread":true})");
  for (const auto* text : {"", "{", "[]", R"({"kind":"Status"})"})
    EXPECT_TRUE(answer_about(question, parse_pod(text), "").starts_with(R"({"error":")")) << text;
}

TEST(PodAnswers, QuestionsOfStrangersAreNone) {
  const auto again = parse_question(to_json_text({"shop", "web-0", "u-1"}));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->name_space + again->pod + again->uid, "shopweb-0u-1");
  for (const auto* text : {"", "[]", R"({"ask":"annotations"})", R"({"ask":1,"pod":"x"})",
                           R"({"ask":"annotations","namespace":"a","pod":3})"})
    EXPECT_FALSE(parse_question(text)) << text;
  EXPECT_EQ(pod_path("a b", "../c"), "/api/v1/namespaces/a%20b/pods/..%2Fc");
}

TEST(NodeLabels, AreSetWhileReadyAndTakenOffElse) {
  const std::vector<Pnet> pnets = {Pnet{"NETA", {}, {}}};
  EXPECT_EQ(
      label_patch(true, pnets, {}),
      R"({"metadata":{"labels":{"fairlead.io/pnet.NETA":"true","fairlead.io/ready":"true"}}})");
  EXPECT_EQ(label_patch(false, pnets, {}), R"({"metadata":{"labels":{"fairlead.io/ready":null}}})");
  EXPECT_EQ(label_patch(false, pnets, {"fairlead.io/pnet.NETA", "fairlead.io/ready", "zone"}),
            R"({"metadata":{"labels":{"fairlead.io/pnet.NETA":null,"fairlead.io/ready":null}}})");
  EXPECT_EQ(label_patch(true, {}, {"fairlead.io/pnet.OLD", "fairlead.io/other"}),
            R"({"metadata":{"labels":{"fairlead.io/pnet.OLD":null,"fairlead.io/ready":"true"}}})");
}

}  // namespace
}  // namespace fairlead::cni::node
