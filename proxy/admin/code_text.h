// Reason codes and tokens as people know them from smcss and the RFC: 0x03030002.
#pragma once

#include <cstdint>
#include <string>

namespace fairlead::admin {

inline std::string code_text(std::uint32_t code) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "0x00000000";
  for (auto digit = text.rbegin(); code != 0; ++digit, code >>= 4) *digit = kDigits[code & 0xfU];
  return text;
}

}  // namespace fairlead::admin
