// Looking into JSON that may have any shape: what is not there, or is of another type, is null or
// empty. Pure.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace fairlead::json {

using Json = nlohmann::json;

// A missing member is null, as is a member of a non-object.
const Json& member(const Json& object, std::string_view name);
const Json& member(const Json& object, std::string_view first, std::string_view second);
// The text of a string; empty for any other type. For programs; a person reads shown_text().
std::string text_of(const Json& value);
// What a person reads: a string itself, the digits of a number, true or false, "?" for a list or an
// object. Empty only if the string is, or if there is nothing.
std::string shown_text(const Json& value);
std::string shown_text(const nlohmann::ordered_json& value);
// The items of an array; an empty array for any other type.
const Json& items_of(const Json& value);
// Entries of an object whose values are strings; others are left out.
std::map<std::string, std::string, std::less<>> strings_of(const Json& value);

}  // namespace fairlead::json
