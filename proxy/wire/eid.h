// A UEID: 32 bytes on the wire, ASCII A-Z 0-9 . and -, first character alphanumeric, blank padded.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fairlead::wire {

struct Eid {
  std::array<char, 32> bytes = blank();
  friend constexpr bool operator==(const Eid&, const Eid&) = default;

  static constexpr std::array<char, 32> blank() {
    std::array<char, 32> b{};
    b.fill(' ');
    return b;
  }
};

// kMalformed when empty, longer than 32, or with a character that is not allowed. Lower case is
// folded to upper, as smcr does. What peers send is not checked against these rules.
Result<Eid> eid_from(std::string_view text);
// Without the padding; what is not printable ASCII becomes '?'.
std::string to_string(const Eid& eid);

}  // namespace fairlead::wire
