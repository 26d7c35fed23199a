#include "ctl/json_value.h"

#include "base/result.h"
#include "json/members.h"

namespace fairlead::ctl {

Result<Json, std::string> read_json(std::string_view text) {
  const auto parsed = SMC_TRY(json::parse(text, kReplyLimits));
  return Json(parsed);
}

Json parse_json(std::string_view text) { return read_json(text).value_or(Json()); }

const Json& member(const Json& object, std::string_view name) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(std::string(name));
  return found == object.end() ? kNull : *found;
}

const Json& list(const Json& object, std::string_view name) {
  static const Json kEmpty = Json::array();
  const Json& found = member(object, name);
  return found.is_array() ? found : kEmpty;
}

std::string text(const Json& object, std::string_view name) {
  return json::shown_text(member(object, name));
}

std::uint64_t number(const Json& object, std::string_view name) {
  const Json& found = member(object, name);
  return found.is_number_unsigned() ? found.get<std::uint64_t>() : 0;
}

double real(const Json& object, std::string_view name) {
  const Json& found = member(object, name);
  return found.is_number() ? found.get<double>() : 0;
}

bool flag(const Json& object, std::string_view name) {
  const Json& found = member(object, name);
  return found.is_boolean() && found.get<bool>();
}

}  // namespace fairlead::ctl
