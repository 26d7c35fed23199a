// Goal: no text crashes the loader, keeps it busy for long or exceeds its limits. Method: known
// bombs, then a valid file mutated by a seeded generator under the sanitizers.
#include <fstream>
#include <random>
#include <sstream>

#include "config/document.h"
#include "unit/config/config_text.h"

namespace fairlead::config {
namespace {

std::string repeated(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

TEST(HostileConfig, RefusesATextAboveTheLimit) {
  const std::string comment(kDocumentBytesMax + 1, '#');
  EXPECT_EQ(only_error(load_text(comment, "t")), "t: too large; allowed: at most 1MiB");
  EXPECT_EQ(only_error(load_text(comment.substr(1), "t")),
            "t: listeners: there is no listener; allowed: 1 to 64 of them");
}

TEST(HostileConfig, RefusesDeepNesting) {
  for (const std::size_t depth : {17U, 1000U, 100'000U}) {
    const std::string opened = "a: " + std::string(depth, '[');
    for (const std::string& text :
         {opened, opened + std::string(depth, ']'), "a: " + repeated("{a: ", depth),
          repeated("- ", depth), repeated("? ", depth)})
      EXPECT_FALSE(load_text(text, "t").has_value()) << depth << text.substr(0, 5);
  }
}

TEST(HostileConfig, NamesTheDepthThatIsAllowed) {
  const auto deepest = parse_document(std::string(16, '[') + std::string(16, ']'), "t");
  EXPECT_TRUE(deepest.has_value());
  const auto deeper = parse_document(std::string(17, '[') + std::string(17, ']'), "t");
  ASSERT_FALSE(deeper.has_value());
  EXPECT_EQ(to_string(deeper.error()), "t:1:17: nested too deeply; allowed: 16 levels");
}

TEST(HostileConfig, RefusesTheBillionLaughs) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int j = 0; j < 8; ++j) bomb += ", " + last;
    bomb += "]\n";
  }
  EXPECT_EQ(only_error(load_text(bomb, "t")),
            "t:1:5: an anchor (&name) is not supported; allowed: values without anchors");
}

TEST(HostileConfig, RefusesTooManyValues) {
  const std::string error =
      only_error(load_text("smc: {assume: [" + repeated("1,", 20'000) + "]}", "t"));
  EXPECT_NE(error.find("too many values; allowed: 20000"), std::string::npos) << error;
}

TEST(HostileConfig, BoundsTheListOfErrors) {
  std::string text(kOneListener);
  for (int i = 0; i < 2000; ++i) text += "unknown" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(errors_of(load_text(text, "t")).size(), kErrorsMax);
}

TEST(HostileConfig, BoundsTheLengthOfOneError) {
  const std::string huge(500'000, 'x');
  for (const std::string& text :
       {huge + ": 1\n", "log: {level: " + huge + "}\n", "fallback: \"" + huge + "\"\n",
        "smc: {assume: [" + huge + "]}\n", "latency: {spin: 1" + huge + "}\n"})
    for (const std::string& line : errors_of(load_with_listener(text)))
      EXPECT_LT(line.size(), 1000U);
}

// Errors go to terminals.
TEST(HostileConfig, ErrorsRepeatNoByteThatATerminalActsOn) {
  const std::string text = std::string(kOneListener);
  const std::string texts[] = {text + "\"\\e[31m\": 1\n\"\\e[31m\": 2\n",  // a repeated key
                               "a: \"\\\u202e\"\n"};                       // an unknown escape
  for (const std::string& bad : texts)
    for (const std::string& line : errors_of(load_text(bad, "t")))
      for (const char c : line) EXPECT_TRUE(c >= ' ' && c <= '~') << line;
  Config config;
  const auto changed = apply_override(config, {"smc.\u202emax", "1", "flag --set"});
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().key, "smc.\\xe2\\x80\\xaemax");
}

TEST(HostileConfig, SurvivesAnyMutationOfAValidFile) {
  std::ifstream file(FAIRLEAD_SOURCE_DIR "/config/proxy.yaml");
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string original = stream.str();
  ASSERT_GT(original.size(), 1000U);
  constexpr std::string_view kSpice = "[]{}:,-?*&!|>'\"%@`#\n\t ~<=0\x04\x80\xff";
  std::mt19937 random(20240817);  // NOLINT: the same mutations in every run
  const auto below = [&](std::size_t n) { return random() % n; };
  std::size_t refused = 0;
  for (int round = 0; round < 600; ++round) {
    std::string text = original;
    for (std::size_t change = below(6) + 1; change > 0; --change) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = kSpice[below(kSpice.size())];
          break;
        case 1:
          text.insert(at, 1, kSpice[below(kSpice.size())]);
          break;
        case 2:
          text.erase(at, below(40));
          break;
        default:
          text.insert(at, text.substr(below(text.size()), below(60)));
          break;
      }
    }
    const LoadResult result = load_text(text, "t");
    if (result) continue;
    ++refused;
    EXPECT_FALSE(result.error().empty());
    EXPECT_LE(result.error().size(), kErrorsMax);
  }
  EXPECT_GT(refused, 100U);
}

}  // namespace
}  // namespace fairlead::config
