// JSON from strangers as a tree that is bounded in length, in depth and in number of values, so
// that its cost follows from the limits and not from the sender. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fairlead::json {

using Json = nlohmann::json;

struct Limits {
  std::size_t bytes;
  std::size_t depth;   // of arrays and objects in each other
  std::size_t values;  // at any depth
  // Members of this name, at any depth, are left out of the tree. Their values count for neither
  // limit of the tree, only for the bytes. Empty: none.
  std::string_view skipped = {};
};

// Error: a sentence for people. Refused: more than the limits, bytes that are not UTF-8, and
// everything that is not one JSON value. Of repeated keys the last one counts.
Result<Json, std::string> parse(std::string_view text, const Limits& limits);

// The values that stand complete at the beginning of a text, up to the end of the text, to the
// first error, or to a limit of depth or values. Arrays and objects have what was read of them.
Json parse_beginning(std::string_view text, const Limits& limits);

}  // namespace fairlead::json
