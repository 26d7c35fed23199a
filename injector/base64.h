// RFC 4648, as the API server has it in Secrets and patches.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fairlead::injector {

// REQUIRES: less than 1 GiB.
std::string base64(std::string_view bytes);
// Nothing for what is no base64, blanks included.
std::optional<std::string> base64_decoded(std::string_view text);

}  // namespace fairlead::injector
