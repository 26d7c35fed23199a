#include "attributes.h"

#include <string>

namespace lab {
namespace {

nlohmann::json unsigned_value(const nlattr* attribute) {
  switch (nla_len(attribute)) {
    case 1:
      return nla_get_u8(attribute);
    case 2:
      return nla_get_u16(attribute);
    case 4:
      return nla_get_u32(attribute);
    case 8:
      return nla_get_u64(attribute);
    default:
      return nullptr;
  }
}

nlohmann::json text_value(const nlattr* attribute) {
  std::string text(static_cast<const char*>(nla_data(attribute)),
                   static_cast<std::size_t>(nla_len(attribute)));
  // Padded with blanks or zeros, as EIDs are.
  text.resize(text.find('\0') == std::string::npos ? text.size() : text.find('\0'));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

nlohmann::json value(const nlattr* attribute, const Attribute& description) {
  switch (description.kind) {
    case Kind::kUnsigned:
      return unsigned_value(attribute);
    case Kind::kText:
      return text_value(attribute);
    case Kind::kNested:
      return attributes_to_json(static_cast<nlattr*>(nla_data(attribute)), nla_len(attribute),
                                description.nested);
  }
  return nullptr;
}

}  // namespace

nlohmann::json attributes_to_json(nlattr* head, int bytes, std::span<const Attribute> table) {
  auto result = nlohmann::json::object();
  int rest = bytes;
  for (nlattr* attribute = head; nla_ok(attribute, rest); attribute = nla_next(attribute, &rest)) {
    for (const Attribute& description : table) {
      if (description.number == nla_type(attribute)) {
        result[description.name] = value(attribute, description);
      }
    }
  }
  return result;
}

}  // namespace lab
