#include "event/https/sha256.h"

#include <openssl/evp.h>

#include <array>

namespace fairlead::event {

std::string sha256_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned bytes = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &bytes, EVP_sha256(), nullptr) != 1)
    return {};
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hexadecimal;
  for (unsigned i = 0; i < bytes; ++i) {
    hexadecimal += kDigits[digest[i] >> 4];
    hexadecimal += kDigits[digest[i] & 0xf];
  }
  return hexadecimal;
}

}  // namespace fairlead::event
