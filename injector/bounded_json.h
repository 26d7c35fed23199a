// Parses the JSON of reviews and of the API server, and reads values from it. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "json/bounded.h"
#include "json/members.h"

namespace fairlead::injector {

using json::items_of;
using json::Json;
using json::member;
using json::strings_of;
using json::text_of;

// A pod has some hundreds of values and a depth below 20. The depth also limits the recursion that
// creates the patch and the answer.
inline constexpr std::size_t kJsonBytesMax = 16 << 20;  // what HTTP lets in is less
inline constexpr std::size_t kJsonDepthMax = 64;
inline constexpr std::size_t kJsonValuesMax = 100'000;

// As json::parse(), with these limits.
Result<Json, std::string> parse_bounded_json(std::string_view text);

}  // namespace fairlead::injector
