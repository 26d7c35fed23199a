// Base64 of RFC 4648, as in Secrets and patches of the API server.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fairlead::injector {

// REQUIRES: less than 1 GiB.
std::string base64(std::string_view bytes);
// Nothing if the text is not base64; blanks are not allowed.
std::optional<std::string> base64_decoded(std::string_view text);

}  // namespace fairlead::injector
