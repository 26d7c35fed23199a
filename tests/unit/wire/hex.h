// Messages as people write them: hex digits with any spacing, zN for N zero bytes, 'text' for ASCII
// and 'text'N for ASCII padded with blanks to N bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fairlead::wire::test {

using Bytes = std::vector<std::byte>;

Bytes from_hex(std::string_view text);
std::string to_hex(std::span<const std::byte> bytes);

}  // namespace fairlead::wire::test
