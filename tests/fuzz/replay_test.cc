// Goal: seeds and findings of the fuzzers are tested in every build, also without clang. Method:
// each target is compiled in under its own name and gets every file of its corpus; a violated
// property aborts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" {
int fuzz_clc_header(const std::uint8_t* data, std::size_t size);
int fuzz_proposal(const std::uint8_t* data, std::size_t size);
int fuzz_accept_confirm(const std::uint8_t* data, std::size_t size);
int fuzz_decline(const std::uint8_t* data, std::size_t size);
int fuzz_llc(const std::uint8_t* data, std::size_t size);
int fuzz_cdc(const std::uint8_t* data, std::size_t size);
int fuzz_frame(const std::uint8_t* data, std::size_t size);
int fuzz_cni(const std::uint8_t* data, std::size_t size);
int fuzz_node(const std::uint8_t* data, std::size_t size);
int fuzz_nri(const std::uint8_t* data, std::size_t size);
int fuzz_review(const std::uint8_t* data, std::size_t size);
}

namespace fairlead::wire::fuzz {
namespace {

struct Target {
  const char* name;
  int (*run)(const std::uint8_t*, std::size_t);
  std::size_t files_min;  // so that a moved corpus does not go unnoticed
};

void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

class Replay : public testing::TestWithParam<Target> {};

std::vector<std::filesystem::path> corpus(const char* name) {
  const std::string folder = std::string(FAIRLEAD_SOURCE_DIR) + "/tests/fuzz/corpus/" + name;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST_P(Replay, EveryFileOfTheCorpus) {
  const std::vector<std::filesystem::path> files = corpus(GetParam().name);
  EXPECT_GE(files.size(), GetParam().files_min);
  for (const std::filesystem::path& path : files) {
    SCOPED_TRACE(path.string());
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file.good());
    // A vector of exactly this size, so that AddressSanitizer sees a read beyond it.
    std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file),
                                    std::istreambuf_iterator<char>()};
    bytes.shrink_to_fit();
    EXPECT_EQ(GetParam().run(bytes.data(), bytes.size()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Targets, Replay,
    testing::Values(Target{"clc_header", fuzz_clc_header, 10}, Target{"proposal", fuzz_proposal, 5},
                    Target{"accept_confirm", fuzz_accept_confirm, 10},
                    Target{"decline", fuzz_decline, 3}, Target{"llc", fuzz_llc, 30},
                    Target{"cdc", fuzz_cdc, 20}, Target{"frame", fuzz_frame, 7},
                    Target{"cni", fuzz_cni, 10}, Target{"node", fuzz_node, 14},
                    Target{"nri", fuzz_nri, 11}, Target{"review", fuzz_review, 25}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace fairlead::wire::fuzz
