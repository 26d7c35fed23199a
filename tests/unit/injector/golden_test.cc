// Goal: what happens to a pod does not change unnoticed, and is the same whichever way it comes
// about. Method: each tests/injection/cases/NAME.json is a pod; outcome, warnings and the patched
// pod must be tests/injection/expected/NAME.json. The tests of fairleadctl and of the admission
// policy use the same files. To write them anew: FAIRLEAD_WRITE_GOLDEN=1.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "injector/decision.h"

namespace fairlead::injector {
namespace {

const std::filesystem::path kFolder = FAIRLEAD_SOURCE_DIR "/tests/injection";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder / "cases"))
    names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, OutcomeWarningsAndPod) {
  const Json given = Json::parse(read_file(kFolder / "cases" / (GetParam() + ".json")));
  const auto settings = parse_settings(read_file(kFolder / "settings.json"));
  ASSERT_TRUE(settings) << settings.error();
  const Decision decision =
      decide(given.at("pod"), *settings, given.at("namespace_opted_in").get<bool>());
  const Json actual = {{"outcome", to_string(decision.outcome)},
                       {"warnings", decision.warnings},
                       {"pod", given.at("pod").patch(decision.patch)}};
  const std::filesystem::path path = kFolder / "expected" / (GetParam() + ".json");
  if (std::getenv("FAIRLEAD_WRITE_GOLDEN") != nullptr)
    std::ofstream(path) << actual.dump(2) << '\n';
  EXPECT_EQ(actual.dump(2) + '\n', read_file(path));
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden, testing::ValuesIn(case_names()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace fairlead::injector
