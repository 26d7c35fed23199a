// Base64 of RFC 4648: section 4 as in Secrets and patches of the API server, section 5 as in
// tokens.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fairlead::event {

// REQUIRES: less than 1 GiB.
std::string base64(std::string_view bytes);
// Nothing if the text is not base64; blanks are not allowed.
std::optional<std::string> base64_decoded(std::string_view text);
// The same for the alphabet of URLs, without padding.
std::optional<std::string> base64url_decoded(std::string_view text);

}  // namespace fairlead::event
