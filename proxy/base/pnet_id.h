// Names of physical networks, by the rule of the kernel's PNET table: 1 to 16 letters and digits,
// in which a small letter means the big one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fairlead {

inline constexpr std::size_t kPnetCharsMax = 16;

// In big letters; empty when `text` is none.
std::string canonical_pnet(std::string_view text);

}  // namespace fairlead
