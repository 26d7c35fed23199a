#include "base/pnet_id.h"

namespace fairlead {

std::string canonical_pnet(std::string_view text) {
  if (text.size() > kPnetCharsMax) return "";
  std::string upper;
  for (const char c : text) {
    const char big = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    if (!((big >= 'A' && big <= 'Z') || (big >= '0' && big <= '9'))) return "";
    upper += big;
  }
  return upper;
}

}  // namespace fairlead
