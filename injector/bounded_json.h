// JSON from strangers as a tree that is bounded in depth and in number of values, so that its cost
// follows from the limits and not from the sender. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace fairlead::injector {

using Json = nlohmann::json;

// A pod has some hundreds of values and a depth below 20. The patch and the answer are made by
// recursion, which the depth bounds too.
inline constexpr std::size_t kJsonDepthMax = 64;
inline constexpr std::size_t kJsonValuesMax = 100'000;

// Error: a sentence for people. Refused: more than the limits, bytes that are not UTF-8, and
// everything that is not one JSON value. Of repeated keys the last one counts.
tl::expected<Json, std::string> parse_bounded_json(std::string_view text);

// Looking into what may have any shape: a missing member is null, as is a member of a non-object.
const Json& member(const Json& object, std::string_view name);
const Json& member(const Json& object, std::string_view first, std::string_view second);
// The text of a string; empty for any other type.
std::string text_of(const Json& value);
// The items of an array; an empty array for any other type.
const Json& items_of(const Json& value);
// Entries of an object whose values are strings; others are left out.
std::map<std::string, std::string, std::less<>> strings_of(const Json& value);

}  // namespace fairlead::injector
