// Golden files: text that changes only on purpose. FAIRLEAD_UPDATE_GOLDEN=1 writes them.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace fairlead::golden {

inline bool updates() {
  const char* value = std::getenv("FAIRLEAD_UPDATE_GOLDEN");
  return value != nullptr && std::string_view(value) == "1";
}

// Empty if there is no such file.
inline std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

// Compares, or writes the file.
inline testing::AssertionResult matches(const std::string& actual, const std::string& path) {
  if (updates()) write(path, actual);
  const std::string expected = read(path);
  if (actual == expected) return testing::AssertionSuccess();
  std::istringstream is(actual), was(expected);
  std::string is_line, was_line;
  std::size_t number = 0;
  bool more_is = true, more_was = true;
  do {
    more_is = static_cast<bool>(std::getline(is, is_line));
    more_was = static_cast<bool>(std::getline(was, was_line));
    ++number;
  } while (more_is && more_was && is_line == was_line);
  return testing::AssertionFailure()
         << path << ":" << number << ": is     " << (more_is ? is_line : "the end") << "\n"
         << path << ":" << number << ": golden " << (more_was ? was_line : "the end")
         << "\nFAIRLEAD_UPDATE_GOLDEN=1 accepts the change";
}

}  // namespace fairlead::golden
