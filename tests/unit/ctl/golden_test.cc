// Goal: the output for users does not change unnoticed. Method: each golden/NAME.json is an answer
// of the admin API; the output for it must equal golden/NAME.txt.
#include <gtest/gtest.h>

#include <map>

#include "ctl/reports.h"
#include "ctl/tables.h"
#include "golden.h"

namespace fairlead::ctl {
namespace {

std::string path_of(const std::string& name) {
  return FAIRLEAD_SOURCE_DIR "/tests/unit/ctl/golden/" + name;
}

Json answer(const std::string& name) {
  Json json = parse_json(golden::read(path_of(name + ".json")));
  EXPECT_TRUE(json.is_object()) << name;
  return json;
}

TEST(Golden, EachAnswerHasItsText) {
  const Json connections = answer("connections"), why = answer("why");
  for (const auto& [name, text] : std::map<std::string, std::string>{
           {"connections", connections_text(connections, false)},
           {"connections_details", connections_text(connections, true)},
           {"linkgroups", link_groups_text(answer("linkgroups"))},
           {"links", links_text(answer("links"))},
           {"devices", devices_text(answer("devices"))},
           {"destinations", destinations_text(answer("destinations"))},
           {"fallbacks", fallbacks_text(answer("fallbacks"))},
           {"stats", stats_text(answer("stats"))},
           {"why", decisions_text(why, false)},
           {"why_all", decisions_text(why, true)},
           {"doctor", checks_text(checks_from(answer("doctor")))}})
    EXPECT_TRUE(golden::matches(text, path_of(name + ".txt")));
}

TEST(EmptyAnswers, AreSentences) {
  const Json nothing = Json::object();
  EXPECT_EQ(connections_text(nothing, false), "no connections\n");
  EXPECT_EQ(link_groups_text(nothing), "no link groups\n");
  EXPECT_EQ(links_text(nothing), "no links\n");
  EXPECT_EQ(devices_text(nothing), "no devices\n");
  EXPECT_EQ(destinations_text(nothing),
            "no destination is left alone now\nconnections that went directly: -\n");
  EXPECT_EQ(destinations_text(parse_json(R"({"unavailable": "by configuration"})")),
            "none: by configuration\n");
  EXPECT_EQ(fallbacks_text(nothing), "no fallbacks\n");
  EXPECT_EQ(decisions_text(nothing, true), "");
}

TEST(StrangeAnswers, DeepOrLongOnesAreRefused) {
  const std::size_t levels = 2'000'000;
  const std::string deep =
      R"({"devices":[{"workers":[)" + std::string(levels, '[') + std::string(levels, ']') + "]}]}";
  EXPECT_EQ(devices_text(parse_json(deep)), "no devices\n");
  EXPECT_EQ(read_json(deep).error(), "nested deeper than 64 levels");
  std::string many = "[0";
  for (std::size_t i = 0; i < kReplyLimits.values; ++i) many += ",0";
  EXPECT_FALSE(read_json(many + "]"));
  EXPECT_FALSE(read_json(std::string(kReplyLimits.bytes + 1, '[')));
}

TEST(StrangeAnswers, AreReadAsFarAsTheyMakeSense) {
  const Json strange = parse_json(
      R"({"connections":[{"id":7,"tx_bytes":"many","age_seconds":null},5,null],"links":{"a":1}})");
  EXPECT_EQ(connections_text(strange, true).find("many"), std::string::npos);
  EXPECT_EQ(links_text(strange), "no links\n");
  EXPECT_EQ(links_text(parse_json("not json")), "no links\n");
  EXPECT_FALSE(stats_text(parse_json("[]")).empty());
}

TEST(Checks, WorstDecidesAndUnknownStatusIsAFailure) {
  EXPECT_EQ(worst_of({}), Check::Status::kOk);
  const auto checks = checks_from(
      parse_json(R"({"checks":[{"name":"a","status":"ok"},{"name":"b","status":"?"}]})"));
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_EQ(worst_of(checks), Check::Status::kFail);
  EXPECT_EQ(worst_of({checks[0], {"c", Check::Status::kWarn, "", ""}}), Check::Status::kWarn);
}

}  // namespace
}  // namespace fairlead::ctl
