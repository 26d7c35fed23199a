#include "config/error.h"

#include <algorithm>
#include <utility>

#include "config/scalar.h"

namespace fairlead::config {

std::string to_string(const ConfigError& error) {
  std::string text = error.file;
  if (error.line > 0) text += ":" + std::to_string(error.line) + ":" + std::to_string(error.column);
  text += ": ";
  if (!error.key.empty()) text += error.key + ": ";
  return text + error.message;
}

void Findings::add(const Origin& origin, std::string_view key, std::string message) {
  if (errors_.size() >= kErrorsMax) return;
  errors_.push_back({origin.file, origin.line, origin.column, escaped(key), std::move(message)});
}

bool Findings::has(std::string_view key) const {
  return std::any_of(errors_.begin(), errors_.end(),
                     [&](const ConfigError& error) { return error.key == key; });
}

}  // namespace fairlead::config
