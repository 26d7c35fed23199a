// JSON from strangers as a tree that is bounded in length, in depth and in number of values, so
// that its cost follows from the limits and not from the sender. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace fairlead::json {

using Json = nlohmann::json;

struct Limits {
  std::size_t bytes;
  std::size_t depth;   // of arrays and objects in each other
  std::size_t values;  // at any depth
};

// Error: a sentence for people. Refused: more than the limits, bytes that are not UTF-8, and
// everything that is not one JSON value. Of repeated keys the last one counts.
tl::expected<Json, std::string> parse(std::string_view text, const Limits& limits);

}  // namespace fairlead::json
