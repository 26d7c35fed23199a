// Reading JSON whose sender may be older or newer than this program: what is missing reads as empty
// or zero, and a number of another type as zero. Nothing here throws.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "json/bounded.h"

namespace fairlead::ctl {

using Json = nlohmann::ordered_json;

// The largest answer of a proxy is that to `connections --limit 10000`, with some 300,000 values.
inline constexpr json::Limits kReplyLimits{32UL << 20, 64, 500'000};

// Error: a sentence for people, that of json::parse() with kReplyLimits. Members have the order of
// their names.
Result<Json, std::string> read_json(std::string_view text);

// The same; null if the text is not JSON, or beyond the limits.
Json parse_json(std::string_view text);

// The member of that name; null if there is none.
const Json& member(const Json& object, std::string_view name);

// The array of that name; an empty one if there is none.
const Json& list(const Json& object, std::string_view name);

// What a person reads of the member, whatever its type: json::shown_text().
std::string text(const Json& object, std::string_view name);
std::uint64_t number(const Json& object, std::string_view name);
double real(const Json& object, std::string_view name);
bool flag(const Json& object, std::string_view name);

}  // namespace fairlead::ctl
