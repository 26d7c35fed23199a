// Goal: reading members of a value of any shape is safe.
#include "json/members.h"

#include <gtest/gtest.h>

namespace fairlead::json {
namespace {

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
