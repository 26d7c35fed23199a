// Goal: the injection of a pod does not change unnoticed, and all ways of injection have the same
// result. Method: each tests/injection/cases/NAME.json is a pod; outcome, warnings and the patched
// pod must be tests/injection/expected/NAME.json. The tests of fairleadctl and of the admission
// policy use the same files. FAIRLEAD_UPDATE_GOLDEN=1 writes them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "golden.h"
#include "injector/decision.h"

namespace fairlead::injector {
namespace {

const std::filesystem::path kFolder = FAIRLEAD_SOURCE_DIR "/tests/injection";

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder / "cases"))
    names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

// What fits on a line is on one.
std::string print(const Json& value, const std::string& indent = "") {
  constexpr std::size_t kLineMax = 100;
  const std::string flat = value.dump();
  if (!value.is_structured() || indent.size() + flat.size() <= kLineMax) return flat;
  std::string text(1, value.is_object() ? '{' : '[');
  for (const auto& [key, element] : value.items()) {
    text += (text.size() == 1 ? "\n  " : ",\n  ") + indent;
    if (value.is_object()) text += Json(key).dump() + ": ";
    text += print(element, indent + "  ");
  }
  return text + "\n" + indent + (value.is_object() ? '}' : ']');
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, OutcomeWarningsAndPod) {
  const Json given = Json::parse(golden::read(kFolder / "cases" / (GetParam() + ".json")));
  const auto settings = parse_settings(golden::read(kFolder / "settings.json"));
  ASSERT_TRUE(settings) << settings.error();
  const Decision decision =
      decide(given.at("pod"), *settings, given.at("namespace_opted_in").get<bool>());
  const Json actual = {{"outcome", to_string(decision.outcome)},
                       {"warnings", decision.warnings},
                       {"pod", given.at("pod").patch(decision.patch)}};
  EXPECT_TRUE(golden::matches(print(actual) + '\n', kFolder / "expected" / (GetParam() + ".json")));
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden, testing::ValuesIn(case_names()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace fairlead::injector
