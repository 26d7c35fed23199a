#include "json/members.h"

namespace fairlead::json {
namespace {

const Json& null_json() {
  static const Json kNull;
  return kNull;
}

template <class AnyJson>
std::string shown(const AnyJson& value) {
  if (value.is_string()) return value.template get<std::string>();
  if (value.is_null()) return {};
  return value.is_structured() ? "?" : value.dump();
}

}  // namespace

const Json& member(const Json& object, std::string_view name) {
  if (!object.is_object()) return null_json();
  const auto found = object.find(std::string(name));
  return found == object.end() ? null_json() : *found;
}

const Json& member(const Json& object, std::string_view first, std::string_view second) {
  return member(member(object, first), second);
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string shown_text(const Json& value) { return shown(value); }
std::string shown_text(const nlohmann::ordered_json& value) { return shown(value); }

const Json& items_of(const Json& value) {
  static const Json kEmpty = Json::array();
  return value.is_array() ? value : kEmpty;
}

std::map<std::string, std::string, std::less<>> strings_of(const Json& value) {
  std::map<std::string, std::string, std::less<>> strings;
  if (!value.is_object()) return strings;
  for (const auto& [key, entry] : value.items())
    if (entry.is_string()) strings.emplace(key, entry.get<std::string>());
  return strings;
}

}  // namespace fairlead::json
