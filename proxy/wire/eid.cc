#include "wire/eid.h"

#include <algorithm>

namespace fairlead::wire {
namespace {

constexpr bool is_alphanumeric(char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

constexpr char fold(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

}  // namespace

Result<Eid> eid_from(std::string_view text) {
  Eid eid;
  if (text.empty()) return Error{Errc::kMalformed, "empty EID"};
  if (text.size() > eid.bytes.size()) return Error{Errc::kMalformed, "EID longer than 32"};
  std::transform(text.begin(), text.end(), eid.bytes.begin(), fold);
  if (!is_alphanumeric(eid.bytes[0])) return Error{Errc::kMalformed, "first character of EID"};
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = eid.bytes[i];
    if (!is_alphanumeric(c) && c != '.' && c != '-')
      return Error{Errc::kMalformed, "character of EID"};
  }
  return eid;
}

std::string to_string(const Eid& eid) {
  std::string text(eid.bytes.begin(), eid.bytes.end());
  text.erase(text.find_last_not_of(' ') + 1);
  // What a peer sent may hold any byte, and this text goes to logs and JSON.
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace fairlead::wire
