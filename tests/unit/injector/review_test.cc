// Goal: any review is decoded or refused with a sentence, at a bounded cost.
#include "injector/review.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "event/https/base64.h"

namespace fairlead::injector {
namespace {

using testing::HasSubstr;

Json review_json() {
  return {{"apiVersion", "admission.k8s.io/v1"},
          {"kind", "AdmissionReview"},
          {"request",
           {{"uid", "u-1"},
            {"kind", {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
            {"operation", "CREATE"},
            {"namespace", "shop"},
            {"object",
             {{"metadata", {{"annotations", {{"fairlead.io/inject", "enabled"}}}}},
              {"spec", {{"containers", Json::array({{{"name", "app"}}})}}}}}}}};
}

TEST(Review, IsDecoded) {
  const auto review = decode_review(review_json().dump());
  ASSERT_TRUE(review) << review.error();
  EXPECT_EQ(review->uid, "u-1");
  EXPECT_EQ(review->name_space, "shop");
  EXPECT_FALSE(review->dry_run);
  EXPECT_TRUE(review->pod.contains("spec"));
}

TEST(Review, WrongTypesAreNamed) {
  struct Row {
    const char* pointer;
    Json value;
    const char* error;
  };
  const Row rows[] = {
      {"/apiVersion", "admission.k8s.io/v1beta1",
       "apiVersion: \"admission.k8s.io/v1beta1\" is not allowed; allowed: admission.k8s.io/v1"},
      {"/kind", 7, "kind: 7 is not allowed; allowed: AdmissionReview"},
      {"/request", Json::array(), "request: array is not allowed; allowed: an object"},
      {"/request/uid", "", "request.uid: \"\" is not allowed"},
      {"/request/uid", std::string(129, 'x'), "request.uid"},
      {"/request/namespace", "a/../b", "request.namespace: \"a/../b\" is not allowed"},
      {"/request/namespace", std::string(kNameCharsMax + 1, 'x'), "request.namespace"},
      {"/request/kind/kind", "Node", "request.kind.kind: \"Node\" is not allowed"},
      {"/request/operation", "DELETE", "operation CREATE"},
  };
  for (const Row& row : rows) {
    Json changed = review_json();
    changed[Json::json_pointer(row.pointer)] = row.value;
    const auto review = decode_review(changed.dump());
    ASSERT_FALSE(review) << row.pointer;
    EXPECT_THAT(review.error(), HasSubstr(row.error));
  }
}

TEST(Review, HostileBodiesAreRefused) {
  const std::string deep = std::string(1'000'000, '[');
  const std::string many = "[" + std::string(2 * kJsonValuesMax, '0') + "]";
  std::string values = "[0";
  for (std::size_t i = 0; i < kJsonValuesMax; ++i) values += ",0";
  const std::string bad_utf8 = "{\"kind\":\"\xc3\x28\"}";
  for (const std::string& body : std::initializer_list<std::string>{
           "", "{", deep, many, values + "]", bad_utf8, std::string(kReviewBytesMax + 1, ' '),
           "{}garbage", std::string("\0{}", 3)}) {
    const auto review = decode_review(body);
    ASSERT_FALSE(review);
    EXPECT_THAT(review.error(), HasSubstr("allowed"));
    EXPECT_LT(review.error().size(), 300U);
  }
  EXPECT_THAT(decode_review(deep).error(), HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(decode_review(values + "]").error(), HasSubstr("more than 100000 values"));
}

TEST(Review, TheAnswerAllowsAndCarriesThePatch) {
  const auto review = decode_review(review_json().dump());
  Settings settings;
  settings.image = "i";
  const Decision decision = decide(review->pod, settings, false);
  const Json answer = Json::parse(encode_answer(*review, decision));
  EXPECT_EQ(answer["response"]["uid"], "u-1");
  EXPECT_EQ(answer["response"]["allowed"], true);
  EXPECT_EQ(answer["response"]["patchType"], "JSONPatch");
  EXPECT_EQ(answer["response"]["patch"], event::base64(decision.patch.dump()));
  EXPECT_FALSE(answer["response"].contains("warnings"));
}

TEST(Review, WarningsAreCutToWhatAnApiServerTakes) {
  Decision decision;
  decision.warnings.assign(40, std::string(1000, 'w'));
  const Json answer = Json::parse(encode_answer({}, decision));
  ASSERT_EQ(answer["response"]["warnings"].size(), kWarningsMax);
  EXPECT_EQ(answer["response"]["warnings"][0].get<std::string>().size(), kWarningCharsMax);
  EXPECT_FALSE(answer["response"].contains("patch"));
}

Subject subject_with(const char* field, const Json& value) {
  Json changed = review_json();
  changed["request"]["object"]["metadata"][field] = value;
  return subject_of(*decode_review(changed.dump()));
}

Json controller() {
  return {{"apiVersion", "apps/v1"},
          {"kind", "ReplicaSet"},
          {"name", "web"},
          {"uid", "r-1"},
          {"controller", true}};
}

TEST(Review, TheSubjectIsTheController) {
  const Subject subject =
      subject_with("ownerReferences", {{{"kind", "X"}, {"name", "x"}}, controller()});
  EXPECT_EQ(subject.kind, "ReplicaSet");
  EXPECT_EQ(subject.uid, "r-1");
}

TEST(Review, ASubjectThatNoObjectHasIsLeftOut) {
  for (const auto& [field, chars_max] :
       std::map<std::string, std::size_t>{{"apiVersion", kApiVersionCharsMax},
                                          {"kind", kKindCharsMax},
                                          {"name", kNameCharsMax},
                                          {"uid", kUidCharsMax}}) {
    const auto with = [field = field](const Json& value) {
      Json owner = controller();
      owner[field] = value;
      return subject_with("ownerReferences", Json::array({owner}));
    };
    EXPECT_FALSE(with(std::string(chars_max, 'x')).name.empty()) << field;
    for (const Json& value :
         std::initializer_list<Json>{std::string(chars_max + 1, 'x'), std::string(1 << 20, 'x'),
                                     "a\nb", "a b", "\xc2\x9b", 7}) {
      const Subject subject = with(value);
      EXPECT_EQ(subject.api_version + subject.kind + subject.name + subject.uid, "") << field;
    }
  }
  EXPECT_EQ(subject_with("name", std::string(1 << 20, 'x')).name, "");
}

}  // namespace
}  // namespace fairlead::injector
