// SHA-256 of FIPS 180-4, by OpenSSL.
#pragma once

#include <string>
#include <string_view>

namespace fairlead::event {

// In lower-case hexadecimal digits. Empty if OpenSSL cannot compute it.
std::string sha256_of(std::string_view text);

}  // namespace fairlead::event
