#include "cni/json_text.h"

#include <algorithm>
#include <exception>

namespace fairlead::cni {
namespace {

constexpr std::size_t kShownCharsMax = 80;

// Counts brackets outside of strings, so that the parser is never asked to build a tower.
std::size_t depth_of(std::string_view text) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

std::string cut(std::string text) {
  if (text.size() > kShownCharsMax) {
    text.resize(kShownCharsMax);
    text += "...";
  }
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

}  // namespace

tl::expected<Json, std::string> parse_json(std::string_view text, std::size_t bytes_max) {
  if (text.size() > bytes_max)
    return tl::unexpected("longer than " + std::to_string(bytes_max) + " bytes");
  if (depth_of(text) > kJsonDepthMax)
    return tl::unexpected("nested more than " + std::to_string(kJsonDepthMax) + " deep");
  try {
    return Json::parse(text);
  } catch (const std::exception& error) {
    return tl::unexpected(cut(error.what()));
  }
}

const Json& member(const Json& object, const char* name) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(name);
  return found == object.end() ? kNothing : *found;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string to_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string shown(const Json& value) { return cut(to_text(value)); }
std::string in_quotes(std::string_view value) { return cut("\"" + std::string(value) + "\""); }

}  // namespace fairlead::cni
