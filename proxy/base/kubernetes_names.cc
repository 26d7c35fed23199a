#include "base/kubernetes_names.h"

namespace fairlead::kubernetes {
namespace {

constexpr std::size_t kNameCharsMax = 253;
constexpr std::size_t kNamespaceCharsMax = 63;

bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); }

}  // namespace

bool is_object_name(std::string_view text) {
  if (text.empty() || text.size() > kNameCharsMax) return false;
  if (!is_letter_or_digit(text.front()) || !is_letter_or_digit(text.back())) return false;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    const char c = text[i];
    if (c == '.' && (!is_letter_or_digit(text[i - 1]) || !is_letter_or_digit(text[i + 1])))
      return false;
    if (c != '.' && c != '-' && !is_letter_or_digit(c)) return false;
  }
  return true;
}

bool is_namespace_name(std::string_view text) {
  return is_object_name(text) && text.size() <= kNamespaceCharsMax &&
         text.find('.') == std::string_view::npos;
}

}  // namespace fairlead::kubernetes
