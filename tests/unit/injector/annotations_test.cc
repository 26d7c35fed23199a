// Goal: every annotation accepts the documented values and refuses others, with key, value and
// allowed values in the error. Method: values at both sides of each limit.
#include "injector/annotations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

namespace fairlead::injector {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Value {
  std::string name;
  std::string value;
  bool is_allowed;
};

// The file is shared with the test of the chart's admission policy.
std::vector<Value> values() {
  std::ifstream file(FAIRLEAD_SOURCE_DIR "/tests/injection/values.txt");
  std::vector<Value> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    const std::size_t name = line.find(' ') + 1;
    const std::size_t value = line.find(' ', name) + 1;
    rows.push_back({line.substr(name, value - name - 1),
                    nlohmann::json::parse(line.substr(value)).get<std::string>(),
                    line.starts_with("good ")});
  }
  return rows;
}

AnnotationReport read(const std::string& name, const std::string& value) {
  return read_annotations({{"fairlead.io/" + name, value}});
}

TEST(Annotations, EachTakesWhatIsAllowedAndErrorsNameKeyValueAndWhatIsAllowed) {
  std::set<std::string> tried;
  for (const Value& row : values()) {
    const AnnotationReport report = read(row.name, row.value);
    tried.insert((row.is_allowed ? "good " : "bad ") + row.name);
    if (row.is_allowed) {
      EXPECT_THAT(report.errors, IsEmpty()) << row.name << " " << row.value;
      EXPECT_EQ(report.wishes.at(row.name), row.value);
      continue;
    }
    const std::string allowed = find_annotation(row.name)->allowed();
    std::string shown = row.value.substr(0, 64);
    std::replace(shown.begin(), shown.end(), '\n', '?');
    EXPECT_THAT(report.errors,
                ElementsAre(AllOf(HasSubstr("fairlead.io/" + row.name), HasSubstr("\"" + shown),
                                  HasSubstr("allowed: " + allowed))))
        << row.name << " " << row.value;
    EXPECT_THAT(report.wishes, IsEmpty());
  }
  for (const AnnotationInfo& info : annotation_table()) {
    const std::string name(info.name);
    EXPECT_TRUE(tried.contains("good " + name) && tried.contains("bad " + name)) << name;
    EXPECT_TRUE(info.is_allowed(info.example)) << name << ": the example of the reference";
  }
}

TEST(Annotations, UnknownKeysAreWarnedAbout) {
  EXPECT_THAT(read("log-levle", "debug").warnings,
              ElementsAre("fairlead.io/log-levle is no annotation of Fairlead and has no effect; "
                          "did you mean fairlead.io/log-level?"));
  EXPECT_THAT(read("colour", "red").warnings,
              ElementsAre("fairlead.io/colour is no annotation of Fairlead and has no effect"));
}

TEST(Annotations, OthersAndTheStatusAreLeftAlone) {
  const AnnotationReport report = read_annotations(
      {{"fairlead.io/status", "{}"}, {"linkerd.io/inject", "x"}, {"fairlead.iox/y", "z"}});
  EXPECT_THAT(report.errors, IsEmpty());
  EXPECT_THAT(report.warnings, IsEmpty());
}

TEST(Annotations, ManyFindingsAreCut) {
  std::map<std::string, std::string, std::less<>> many;
  for (int i = 0; i < 1000; ++i) many["fairlead.io/a" + std::to_string(i)] = "";
  EXPECT_EQ(read_annotations(many).warnings.size(), kFindingsMax);
}

TEST(Annotations, QuantitiesHaveTheirValue) {
  EXPECT_EQ(cpu_millis("1.25"), 1250U);
  EXPECT_EQ(cpu_millis("0.05"), 50U);
  EXPECT_EQ(memory_bytes("2Gi"), 2ULL << 30);
  EXPECT_EQ(memory_bytes("1048576Gi"), 1ULL << 50);
  EXPECT_EQ(memory_bytes("1073741824Gi"), std::nullopt);
}

}  // namespace
}  // namespace fairlead::injector
