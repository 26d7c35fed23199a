#include "event/http/http_endpoint.h"

namespace fairlead::event {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

}  // namespace

Result<HttpEndpoint> HttpEndpoint::parse(std::string_view text) {
  if (text.starts_with('@')) return HttpEndpoint(SMC_TRY(UnixAddress::parse(text)));
  const bool prefixed = text.starts_with(kUnixPrefix);
  if (!prefixed && !text.starts_with('/')) return HttpEndpoint(SMC_TRY(SocketAddress::parse(text)));
  return HttpEndpoint(
      SMC_TRY(UnixAddress::of_path(text.substr(prefixed ? kUnixPrefix.size() : 0))));
}

std::string to_string(const HttpEndpoint& endpoint) {
  if (endpoint.is_tcp()) return to_string(endpoint.tcp());
  if (endpoint.is_unix_path()) return std::string(kUnixPrefix) + endpoint.path();
  return '@' + std::string(endpoint.local().name());
}

}  // namespace fairlead::event
