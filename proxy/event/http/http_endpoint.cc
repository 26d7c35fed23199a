#include "event/http/http_endpoint.h"

#include <cstddef>
#include <cstring>

namespace fairlead::event {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

}  // namespace

Result<HttpEndpoint> HttpEndpoint::parse(std::string_view text) {
  if (text.starts_with('@')) {
    std::string name(text);
    name.front() = '\0';
    return from_unix_name(name);
  }
  if (text.starts_with(kUnixPrefix)) return from_unix_name(text.substr(kUnixPrefix.size()));
  if (text.starts_with('/')) return from_unix_name(text);
  return HttpEndpoint(SMC_TRY(SocketAddress::parse(text)));
}

Result<HttpEndpoint> HttpEndpoint::from_unix_name(std::string_view name) {
  constexpr std::string_view kNul("\0", 1);
  UnixAddress made;
  if (name.empty() || name == kNul)
    return Error{Errc::kMalformed, "the name of the UNIX socket is empty", 0};
  if (name.substr(1).find('\0') != std::string_view::npos)
    return Error{Errc::kMalformed, "the name of the UNIX socket holds a NUL", 0};
  if (name.size() >= sizeof(made.address.sun_path))
    return Error{Errc::kMalformed, "the name of the UNIX socket is too long", 0};
  made.address.sun_family = AF_UNIX;
  made.name_bytes = name.size();
  std::memcpy(made.address.sun_path, name.data(), name.size());
  return HttpEndpoint(made);
}

std::string_view HttpEndpoint::unix_name() const {
  const auto& local = std::get<UnixAddress>(where_);
  return {local.address.sun_path, local.name_bytes};
}

const sockaddr* HttpEndpoint::data() const {
  if (is_tcp()) return tcp().data();
  return reinterpret_cast<const sockaddr*>(&std::get<UnixAddress>(where_).address);
}

socklen_t HttpEndpoint::size() const {
  if (is_tcp()) return tcp().size();
  // A path has a terminator. An abstract name has none: its length is that of the address.
  const std::size_t terminator = is_unix_path() ? 1 : 0;
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + unix_name().size() + terminator);
}

std::string to_string(const HttpEndpoint& endpoint) {
  if (endpoint.is_tcp()) return to_string(endpoint.tcp());
  if (endpoint.is_unix_path()) return std::string(kUnixPrefix) + endpoint.path();
  return '@' + std::string(endpoint.unix_name().substr(1));
}

}  // namespace fairlead::event
