#include "unit/wire/hex.h"

#include <cctype>

#include "base/assert.h"

namespace fairlead::wire::test {
namespace {

unsigned digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  SMC_ASSERT(c >= 'a' && c <= 'f', c);
  return static_cast<unsigned>(c - 'a' + 10);
}

std::size_t take_number(std::string_view& text) {
  std::size_t number = 0;
  while (!text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0) {
    number = number * 10 + digit(text[0]);
    text.remove_prefix(1);
  }
  // Otherwise digits of the next field would have been read as part of the number.
  SMC_ASSERT(text.empty() || text[0] == ' ' || text[0] == '\n', number);
  return number;
}

void take_quoted(std::string_view& text, Bytes& out) {
  const std::size_t end = text.find('\'', 1);
  SMC_ASSERT(end != std::string_view::npos);
  const std::size_t padded = out.size();
  for (char c : text.substr(1, end - 1)) out.push_back(static_cast<std::byte>(c));
  text.remove_prefix(end + 1);
  const std::size_t width = take_number(text);
  while (out.size() < padded + width) out.push_back(std::byte{' '});
}

}  // namespace

Bytes from_hex(std::string_view text) {
  Bytes out;
  while (!text.empty()) {
    if (text[0] == ' ' || text[0] == '\n') {
      text.remove_prefix(1);
    } else if (text[0] == 'z') {
      text.remove_prefix(1);
      out.resize(out.size() + take_number(text));
    } else if (text[0] == '\'') {
      take_quoted(text, out);
    } else {
      SMC_ASSERT(text.size() >= 2);
      out.push_back(static_cast<std::byte>(digit(text[0]) << 4U | digit(text[1])));
      text.remove_prefix(2);
    }
  }
  return out;
}

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (std::byte byte : bytes) {
    out.push_back(kDigits[std::to_integer<unsigned>(byte) >> 4U]);
    out.push_back(kDigits[std::to_integer<unsigned>(byte) & 0x0fU]);
  }
  return out;
}

}  // namespace fairlead::wire::test
