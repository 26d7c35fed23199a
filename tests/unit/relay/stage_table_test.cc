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

// The compiler checks that each stage decides on each event. The page shows what they decided.
TEST(StageTable, ThePageShowsWhatEachStageActsOn) {
  std::ifstream page(std::filesystem::path(FAIRLEAD_SOURCE_DIR) / "docs/architecture.md");
  std::stringstream text;
  text << page.rdbuf();
  EXPECT_NE(text.str().find(table()), std::string::npos)
      << "docs/architecture.md lacks this table:\n"
      << table();
}

}  // namespace
}  // namespace fairlead::relay
