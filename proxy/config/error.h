// What is wrong with a configuration, for people: where, which key, why, and what would be right.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fairlead::config {

struct ConfigError {
  std::string file;  // as it was named to the loader, or the variable or flag
  int line = 0;      // from 1; 0 when the error belongs to no line
  int column = 0;    // from 1; 0 when the error belongs to no line
  // "smc.max_links", "listeners[2].listen"; empty for the file as a whole. Escaped, because a key
  // may be anything.
  std::string key;
  std::string message;  // what is wrong, and behind "; allowed: " what would be right

  friend bool operator==(const ConfigError&, const ConfigError&) = default;
};

// file:line:column: key: message
std::string to_string(const ConfigError& error);

// More than this is not read by anybody, and a hostile file must not fill the memory.
inline constexpr std::size_t kErrorsMax = 64;

// Where a value was written.
struct Origin {
  std::string file;
  int line = 0;
  int column = 0;
};

// Gathers errors in the order in which they are found; silently drops those beyond kErrorsMax.
class Findings {
 public:
  void add(const Origin& origin, std::string_view key, std::string message);
  bool empty() const { return errors_.empty(); }
  // Something was wrong with this very key.
  bool has(std::string_view key) const;
  std::vector<ConfigError> take() { return std::move(errors_); }

 private:
  std::vector<ConfigError> errors_;
};

}  // namespace fairlead::config
