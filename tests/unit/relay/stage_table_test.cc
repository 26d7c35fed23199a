#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "relay/connection/stage.h"

namespace fairlead::relay {
namespace {

template <class... All>
std::string header(const std::variant<All...>*) {
  std::string line = "| stage |", rule = "|---|";
  ((line += std::string(" ") + All::kName + " |", rule += "---|"), ...);
  return line + "\n" + rule + "\n";
}

std::string table() {
  std::string text = header(static_cast<const Event*>(nullptr));
  for (const StageRow& row : stage_rows()) {
    text += std::string("| ") + row.stage + " |";
    for (const bool acts : row.acts) text += acts ? " acts |" : " – |";
    text += "\n";
  }
  return text;
}

std::string deadlines() {
  std::string text = "| deadline | what follows | ends with the stage |\n|---|---|---|\n";
  constexpr const char* kEffects[] = {"DeadlineDue", "Ready", "the session acts"};
  for (const DeadlineRow& row : kDeadlineRows)
    text += std::string("| ") + row.name + " | " + kEffects[static_cast<int>(row.effect)] + " | " +
            (row.of_stage ? "yes" : "no") + " |\n";
  return text;
}

std::string page() {
  std::ifstream file(std::filesystem::path(FAIRLEAD_SOURCE_DIR) / "docs/architecture.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The compiler checks that each stage decides on each event. The page shows what they decided.
TEST(StageTable, ThePageShowsWhatEachStageActsOn) {
  EXPECT_NE(page().find(table()), std::string::npos) << "docs/architecture.md lacks this table:\n"
                                                     << table();
}

TEST(StageTable, ThePageShowsWhatAConnectionWaitsFor) {
  EXPECT_NE(page().find(deadlines()), std::string::npos)
      << "docs/architecture.md lacks this table:\n"
      << deadlines();
}

}  // namespace
}  // namespace fairlead::relay
