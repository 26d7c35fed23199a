#include "event/https/base64.h"

#include <openssl/evp.h>

#include <algorithm>

#include "base/assert.h"

namespace fairlead::event {
namespace {

constexpr std::size_t kBytesMax = 1 << 30;  // OpenSSL counts in int

const unsigned char* unsigned_data(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::string base64(std::string_view bytes) {
  SMC_ASSERT(bytes.size() < kBytesMax);
  std::string text((bytes.size() + 2) / 3 * 4, '\0');
  // The function also writes a terminator, at the position of the string's own.
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), unsigned_data(bytes),
                  static_cast<int>(bytes.size()));
  return text;
}

std::optional<std::string> base64_decoded(std::string_view text) {
  // OpenSSL trims blanks, takes padding anywhere and decodes it to zeros.
  if (text.size() >= kBytesMax || text.size() % 4 != 0 ||
      text.find_first_of(" \t\r\n") != std::string_view::npos)
    return std::nullopt;
  const std::size_t letters = std::min(text.find('='), text.size());
  const std::size_t padding = text.size() - letters;
  if (padding > 2 || text.find_first_not_of('=', letters) != std::string_view::npos)
    return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int count = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                    unsigned_data(text), static_cast<int>(text.size()));
  if (count < 0) return std::nullopt;
  bytes.resize(static_cast<std::size_t>(count) - padding);
  return bytes;
}

std::optional<std::string> base64url_decoded(std::string_view text) {
  std::string standard(text);
  if (standard.find_first_of("+/=") != std::string::npos) return std::nullopt;
  std::replace(standard.begin(), standard.end(), '-', '+');
  std::replace(standard.begin(), standard.end(), '_', '/');
  standard.append((4 - standard.size() % 4) % 4, '=');
  return base64_decoded(standard);
}

}  // namespace fairlead::event
