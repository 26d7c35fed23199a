// Goal: untrusted JSON costs at most what the limits permit, and the error names the limit.
#include "json/bounded.h"

#include <gtest/gtest.h>

namespace fairlead::json {
namespace {

constexpr Limits kLimits{.bytes = 64, .depth = 3, .values = 5};

std::string error_of(std::string_view text) {
  const auto parsed = parse(text, kLimits);
  return parsed ? "" : parsed.error();
}

TEST(BoundedJson, TakesWhatIsWithinTheLimits) {
  const auto parsed = parse(R"({"a":[1,"b",null]})", kLimits);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->dump(), R"({"a":[1,"b",null]})");
  EXPECT_EQ(error_of("[[[]]]"), "");
  EXPECT_EQ(error_of(std::string(62, ' ') + "12"), "");
}

TEST(BoundedJson, EachLimitIsExact) {
  EXPECT_EQ(error_of(std::string(63, ' ') + "12"), "longer than 64 bytes");
  EXPECT_EQ(error_of("[[[[]]]]"), "nested deeper than 3 levels");
  EXPECT_EQ(error_of("[1,2,3,4]"), "");
  EXPECT_EQ(error_of("[1,2,3,4,5]"), "more than 5 values");
}

TEST(BoundedJson, BracketsInStringsAreNoDepth) { EXPECT_EQ(error_of(R"(["[[[[{{\"[["])"), ""); }

TEST(BoundedJson, TheLastOfRepeatedKeysCounts) {
  EXPECT_EQ(parse(R"({"a":1,"a":[2]})", kLimits)->dump(), R"({"a":[2]})");
}

TEST(BoundedJson, RefusesWhatIsNotOneValue) {
  for (const char* text : {"", "{", "[1,]", "{} {}", "nul", "\"\xff\"", "1e999", "{a:1}", "[1]x"})
    EXPECT_EQ(error_of(text).substr(0, 8), "not JSON") << text;
}

}  // namespace
}  // namespace fairlead::json
