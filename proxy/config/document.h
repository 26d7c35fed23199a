// A YAML text as a plain tree with positions. The only place that knows yaml-cpp, and the place
// where hostile input ends: what comes out is bounded in size and depth, and is nothing but
// mappings, sequences and scalars.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/error.h"

namespace fairlead::config {

inline constexpr std::size_t kDocumentBytesMax = 1 << 20;
inline constexpr std::size_t kDocumentNodesMax = 20'000;
inline constexpr std::size_t kDocumentDepthMax = 16;

struct Node {
  enum class Kind : std::uint8_t { kNull, kScalar, kSequence, kMapping };
  Kind kind = Kind::kNull;
  bool quoted = false;  // kScalar: written in quotes or as a block, so it is text
  std::string text;     // kScalar
  // kMapping: scalars, in the order of the file, not checked for repetition.
  std::vector<Node> keys;
  std::vector<Node> items;  // kSequence: the items; kMapping: the value of each key
  int line = 0;             // from 1; 0 when it comes from no file
  int column = 0;
};

// An empty text, or one of comments only, is kNull. Refused: more than kDocumentBytesMax, bytes
// that are not UTF-8, control characters, anchors, aliases, tags, a second document, keys that are
// not scalars, too many nodes, too deep nesting, and everything that is not YAML.
Result<Node, ConfigError> parse_document(std::string_view text, const std::string& name);

}  // namespace fairlead::config
