// Parses and prints the JSON of configurations, states and answers. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "json/bounded.h"
#include "json/members.h"

namespace fairlead::cni {

using json::Json;
using json::member;
using json::strings_of;
using json::text_of;

// A network configuration with the result of a long chain has some ten kilobytes.
inline constexpr std::size_t kJsonBytesMax = 1 << 20;
// No configuration nests deeper.
inline constexpr std::size_t kJsonDepthMax = 32;

// As json::parse(), with these limits.
Result<Json, std::string> parse_json(std::string_view text, std::size_t bytes_max = kJsonBytesMax);

// One line; bytes that are not UTF-8 are replaced.
std::string to_text(const Json& value);
// The same in ASCII, for logs: terminals act on some characters of Unicode, too.
std::string to_ascii_text(const Json& value);

// For messages: the value as JSON, cut, and free of control characters.
std::string shown(const Json& value);
std::string in_quotes(std::string_view value);

}  // namespace fairlead::cni
