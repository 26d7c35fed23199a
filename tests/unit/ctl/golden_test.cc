// Goal: what people see does not change unnoticed. Method: each golden/NAME.json is an answer of
// the admin API; what is made of it must be golden/NAME.txt, to the byte.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "ctl/reports.h"
#include "ctl/tables.h"

namespace fairlead::ctl {
namespace {

std::string read_golden(const std::string& name) {
  const std::string path = std::string(FAIRLEAD_SOURCE_DIR "/tests/unit/ctl/golden/") + name;
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Json answer(const std::string& name) {
  Json json = parse_json(read_golden(name + ".json"));
  EXPECT_TRUE(json.is_object()) << name;
  return json;
}

TEST(Golden, Connections) {
  EXPECT_EQ(connections_text(answer("connections"), false), read_golden("connections.txt"));
}

TEST(Golden, ConnectionsInDetail) {
  EXPECT_EQ(connections_text(answer("connections"), true), read_golden("connections_details.txt"));
}

TEST(Golden, LinkGroups) {
  EXPECT_EQ(link_groups_text(answer("linkgroups")), read_golden("linkgroups.txt"));
}

TEST(Golden, Links) { EXPECT_EQ(links_text(answer("links")), read_golden("links.txt")); }

TEST(Golden, Devices) { EXPECT_EQ(devices_text(answer("devices")), read_golden("devices.txt")); }

TEST(Golden, Fallbacks) {
  EXPECT_EQ(fallbacks_text(answer("fallbacks")), read_golden("fallbacks.txt"));
}

TEST(Golden, Stats) { EXPECT_EQ(stats_text(answer("stats")), read_golden("stats.txt")); }

TEST(Golden, WhyShowsTheNewestInFull) {
  EXPECT_EQ(decisions_text(answer("why"), false), read_golden("why.txt"));
}

TEST(Golden, WhyShowsAllWhenAsked) {
  EXPECT_EQ(decisions_text(answer("why"), true), read_golden("why_all.txt"));
}

TEST(Golden, Doctor) {
  EXPECT_EQ(checks_text(checks_from(answer("doctor"))), read_golden("doctor.txt"));
}

TEST(EmptyAnswers, AreSentences) {
  const Json nothing = Json::object();
  EXPECT_EQ(connections_text(nothing, false), "no connections\n");
  EXPECT_EQ(link_groups_text(nothing), "no link groups\n");
  EXPECT_EQ(links_text(nothing), "no links\n");
  EXPECT_EQ(devices_text(nothing), "no devices\n");
  EXPECT_EQ(fallbacks_text(nothing), "no fallbacks\n");
  EXPECT_EQ(decisions_text(nothing, true), "");
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
