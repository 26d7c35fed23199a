#include "cni/plugin/json_text.h"

#include "base/result.h"

namespace fairlead::cni {
namespace {

constexpr std::size_t kShownCharsMax = 80;
constexpr std::size_t kBytesOfValue = 8;  // with its key; most have more

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

Result<Json, std::string> parse_json(std::string_view text, std::size_t bytes_max) {
  return json::parse(text, {bytes_max, kJsonDepthMax, bytes_max / kBytesOfValue});
}

std::string to_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_ascii_text(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string shown(const Json& value) { return cut(to_text(value)); }
std::string in_quotes(std::string_view value) { return cut("\"" + std::string(value) + "\""); }

}  // namespace fairlead::cni
