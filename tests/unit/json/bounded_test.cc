// Goal: untrusted JSON costs at most what the limits permit, the error names the limit, and reading
// members of a value of any shape is safe.
#include "json/bounded.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "json/members.h"

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

TEST(BoundedJson, SkippedMembersCountForBytesOnly) {
  Limits limits = kLimits;
  limits.skipped = "x";
  for (const auto* text : {R"({"x":[[[[[1,2,3,4,5]]]]],"a":1})", R"({"x":7,"a":1})",
                           R"({"a":1,"x":{"x":{"a":{"x":[2]}}}})", R"({"x":"a","a":1})"}) {
    const auto parsed = parse(text, limits);
    ASSERT_TRUE(parsed) << text << parsed.error();
    EXPECT_EQ(parsed->dump(), R"({"a":1})") << text;
  }
  EXPECT_EQ(parse(R"([{"x":1},"x",{"a":"x"}])", limits)->dump(), R"([{},"x",{"a":"x"}])");
  EXPECT_FALSE(parse(R"({"x":[1,2})", limits));
  EXPECT_EQ(parse(std::string(65, ' '), limits).error(), "longer than 64 bytes");
}

TEST(BoundedJson, TheBeginningHasWhatStandsCompleteInIt) {
  const std::string text = R"({"a":{"b":"long","c":[1,true]}})";
  for (const auto& [length, tree] :
       std::map<std::size_t, std::string>{{0, "null"},
                                          {1, "{}"},
                                          {4, "{}"},
                                          {6, R"({"a":{}})"},
                                          {14, R"({"a":{}})"},
                                          {17, R"({"a":{"b":"long"}})"},
                                          {25, R"({"a":{"b":"long","c":[1]}})"},
                                          {text.size(), text}})
    EXPECT_EQ(parse_beginning(text.substr(0, length), {64, 3, 6}).dump(), tree) << length;
  EXPECT_EQ(parse_beginning(R"({"a":1,"b":[[[[2]]]]})", kLimits).dump(), R"({"a":1,"b":[[]]})");
  EXPECT_EQ(parse_beginning("[1,2,3,4,5,6]", kLimits).dump(), "[1,2,3,4]");
}

TEST(BoundedJson, RefusesWhatIsNotOneValue) {
  for (const char* text : {"", "{", "[1,]", "{} {}", "nul", "\"\xff\"", "1e999", "{a:1}", "[1]x"})
    EXPECT_EQ(error_of(text).substr(0, 8), "not JSON") << text;
}

TEST(Members, OfWhatHasNoneAreNull) {
  const Json object = Json::parse(R"({"a":{"b":"c"},"n":null})");
  EXPECT_EQ(member(object, "a", "b"), "c");
  for (const Json& other : {Json(), Json(3), Json("text"), Json::array({1}), object}) {
    EXPECT_TRUE(member(other, "x").is_null()) << other;
    EXPECT_TRUE(member(other, "x", "y").is_null()) << other;
  }
  EXPECT_TRUE(member(object, "n", "b").is_null());
}

TEST(Members, OfAnotherTypeAreEmpty) {
  EXPECT_EQ(text_of(Json("x")), "x");
  for (const Json& other : {Json(), Json(3), Json::object(), Json::array({"x"})})
    EXPECT_EQ(text_of(other), "") << other;
  EXPECT_EQ(items_of(Json::array({1, 2})).size(), 2u);
  EXPECT_TRUE(items_of(Json("x")).empty());
  EXPECT_TRUE(items_of(Json::object({{"a", 1}})).empty());
  const auto strings = strings_of(Json::parse(R"({"a":"1","b":2,"c":"3"})"));
  EXPECT_EQ(strings, (std::map<std::string, std::string, std::less<>>{{"a", "1"}, {"c", "3"}}));
  EXPECT_TRUE(strings_of(Json::array({"a"})).empty());
}

}  // namespace
}  // namespace fairlead::json
