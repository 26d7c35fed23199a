// JSON from outside, into nlohmann's value, with limits that the library does not have. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace fairlead::cni {

using Json = nlohmann::json;

// A network configuration with the result of a long chain has some ten kilobytes.
inline constexpr std::size_t kJsonBytesMax = 1 << 20;
// Deeper nesting is nobody's configuration.
inline constexpr std::size_t kJsonDepthMax = 32;

// Error: what is wrong and where, for people.
tl::expected<Json, std::string> parse_json(std::string_view text,
                                           std::size_t bytes_max = kJsonBytesMax);

// A missing member is null, as is a member of what is no object.
const Json& member(const Json& object, const char* name);
// Empty when it is no string.
std::string text_of(const Json& value);

// One line; bytes that are not UTF-8 are replaced.
std::string to_text(const Json& value);

// For messages: the value as JSON, cut, and free of control characters.
std::string shown(const Json& value);
std::string in_quotes(std::string_view value);

}  // namespace fairlead::cni
