// Shared functions of this folder's tests: the smallest valid text, and errors as lines.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "config/load.h"

namespace fairlead::config {

inline constexpr std::string_view kOneListener =
    "listeners: [{name: web, direction: outbound, mode: static, listen: 127.0.0.1:8080, upstream: "
    "10.0.0.1:80}]\n";

// `text` behind one valid listener, which takes line 1.
inline LoadResult load_with_listener(std::string_view text) {
  return load_text(std::string(kOneListener) + std::string(text), "test.yaml");
}

inline std::vector<std::string> errors_of(const LoadResult& result) {
  std::vector<std::string> lines;
  if (result) return lines;
  for (const ConfigError& error : result.error()) lines.push_back(to_string(error));
  return lines;
}

// The one error of a load, or a text that no test expects.
inline std::string only_error(const LoadResult& result) {
  const std::vector<std::string> lines = errors_of(result);
  if (lines.size() == 1) return lines[0];
  std::string all = std::to_string(lines.size()) + " errors";
  for (const std::string& line : lines) all += "\n" + line;
  return all;
}

// The one error of a text behind a valid listener has that part.
inline void expect_error(std::string_view text, const std::string& part) {
  EXPECT_THAT(only_error(load_with_listener(text)), testing::HasSubstr(part)) << text;
}

// The value of a load that must succeed; otherwise the test fails and continues with the defaults.
inline Config loaded(const LoadResult& result) {
  EXPECT_TRUE(result.has_value()) << only_error(result);
  return result.value_or(Config{});
}

}  // namespace fairlead::config
