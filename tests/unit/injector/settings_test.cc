// Goal: settings are taken as a whole or refused with field, value and what is allowed.
#include "injector/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fairlead::injector {
namespace {

using testing::HasSubstr;

TEST(Settings, OnlyTheImageHasNoDefault) {
  const auto settings = parse_settings(R"({"image":"a"})");
  ASSERT_TRUE(settings) << settings.error();
  EXPECT_EQ(settings->image, "a");
  EXPECT_EQ(settings->admin_port, kubernetes::kAdminPort);
  EXPECT_THAT(parse_settings("{}").error(), HasSubstr("image: missing"));
}

TEST(Settings, MistakesAreNamed) {
  const std::pair<const char*, const char*> rows[] = {
      {"[]", "allowed: settings"},
      {"{", "not JSON"},
      {R"({"image":""})", "image: \"\" is not allowed; allowed: an image reference"},
      {R"({"image":"a","fallback":"maybe"})",
       "fallback: \"maybe\" is not allowed; allowed: allow or deny"},
      {R"({"image":"a","concurrency":0})",
       "concurrency: 0 is not allowed; allowed: a whole number from 1 to 64"},
      {R"({"image":"a","adminPort":80})", "adminPort: 80 is not allowed"},
      {R"({"image":"a","env":[{"name":"X"}]})", "env: {\"name\":\"X\"} is not allowed"},
      {R"({"image":"a","colour":"red"})", "\"colour\" is no setting; allowed: "},
      {R"({"image":"a","cpuRequest":"2","cpuLimit":"1"})",
       "cpuRequest: \"2\" is not allowed; allowed: at most cpuLimit"},
      {R"({"image":"a","memoryLimit":"1Mi"})", "memoryLimit: \"1Mi\" is not allowed"},
  };
  for (const auto& [text, error] : rows) {
    const auto settings = parse_settings(text);
    ASSERT_FALSE(settings) << text;
    EXPECT_THAT(settings.error(), HasSubstr(error));
  }
}

TEST(Settings, VariablesKeepTheirOrder) {
  const auto settings =
      parse_settings(R"({"image":"a","env":[{"name":"B","value":"2"},{"name":"A","value":"1"}]})");
  ASSERT_TRUE(settings) << settings.error();
  ASSERT_EQ(settings->variables.size(), 2U);
  EXPECT_EQ(settings->variables[0].first, "B");
}

}  // namespace
}  // namespace fairlead::injector
