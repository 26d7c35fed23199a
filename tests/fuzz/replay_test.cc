// Goal: seeds and findings of the fuzzers are tested in every build, also without clang, and each
// corpus still reaches what it was collected for. Method: each target is compiled in under its own
// name and gets every file of its corpus; a violated property aborts. The targets name what an
// input led to (reached.h), and outcomes.txt lists these names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "fuzz/reached.h"
#include "fuzz_targets.h"

namespace fairlead::fuzz {

static void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

namespace {

// Replayed in every test run, so it has to stay small.
constexpr std::size_t kCorpusFilesMax = 200;
constexpr std::size_t kFileBytesMax = 4352;  // a message of LLC with 255 keys has 4152
constexpr std::size_t kAllBytesMax = 400 << 10;

std::string folder() { return std::string(FAIRLEAD_SOURCE_DIR) + "/tests/fuzz/"; }

std::vector<std::filesystem::path> corpus(const char* name) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder() + "corpus/" + name))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// Lines of outcomes.txt: the target, a blank, the outcome.
std::map<std::string, Outcomes> expected_outcomes() {
  std::map<std::string, Outcomes> expected;
  std::ifstream file(folder() + "outcomes.txt");
  for (std::string line; std::getline(file, line);) {
    const std::size_t blank = line.find(' ');
    if (blank != std::string::npos) expected[line.substr(0, blank)].insert(line.substr(blank + 1));
  }
  return expected;
}

void write_outcomes(const std::map<std::string, Outcomes>& all) {
  std::ofstream file(folder() + "outcomes.txt");
  for (const auto& [target, outcomes] : all)
    for (const std::string& outcome : outcomes) file << target << ' ' << outcome << '\n';
}

// Without blanks at the end, which a cut sentence may have and a line of outcomes.txt may not.
Outcomes trimmed(const Outcomes& outcomes) {
  Outcomes trimmed;
  for (const std::string& one : outcomes)
    trimmed.insert(one.substr(0, one.find_last_not_of(' ') + 1));
  return trimmed;
}

class Replay : public testing::TestWithParam<Target> {
 protected:
  Replay() { collected_outcomes = &outcomes; }
  ~Replay() override { collected_outcomes = nullptr; }

  void run(const std::filesystem::path& path) {
    SCOPED_TRACE(path.string());
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file.good());
    // A vector of exactly this size, so that AddressSanitizer sees a read beyond it.
    std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file),
                                    std::istreambuf_iterator<char>()};
    bytes.shrink_to_fit();
    EXPECT_LE(bytes.size(), kFileBytesMax);
    EXPECT_EQ(GetParam().run(bytes.data(), bytes.size()), 0);
  }

  Outcomes outcomes;
};

TEST_P(Replay, TheCorpusReachesWhatItWasCollectedFor) {
  const std::vector<std::filesystem::path> files = corpus(GetParam().name);
  EXPECT_LE(files.size(), kCorpusFilesMax);
  for (const std::filesystem::path& path : files) run(path);
  outcomes = trimmed(outcomes);
  std::map<std::string, Outcomes> expected = expected_outcomes();
  if (std::getenv("FAIRLEAD_UPDATE_GOLDEN") != nullptr) {
    expected[GetParam().name] = outcomes;
    return write_outcomes(expected);
  }
  const Outcomes& wanted = expected[GetParam().name];
  EXPECT_FALSE(wanted.empty()) << "outcomes.txt has no line of this target";
  for (const std::string& outcome : wanted)
    EXPECT_TRUE(outcomes.contains(outcome)) << "no file of the corpus reaches: " << outcome;
  for (const std::string& outcome : outcomes)
    EXPECT_TRUE(wanted.contains(outcome))
        << "outcomes.txt lacks: " << outcome << "\nFAIRLEAD_UPDATE_GOLDEN=1 writes it";
}

INSTANTIATE_TEST_SUITE_P(Targets, Replay, testing::ValuesIn(kTargets),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(Corpora, AreSmall) {
  std::size_t bytes = 0;
  for (const Target& target : kTargets)
    for (const std::filesystem::path& path : corpus(target.name))
      bytes += std::filesystem::file_size(path);
  EXPECT_LE(bytes, kAllBytesMax);
}

}  // namespace
}  // namespace fairlead::fuzz
