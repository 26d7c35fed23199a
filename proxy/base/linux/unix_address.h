// Names of UNIX sockets as system calls take them.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <optional>
#include <string_view>

namespace fairlead {

// Nothing when the path, with its terminator, is too long for the structure.
inline std::optional<sockaddr_un> unix_address(std::string_view path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  path.copy(address.sun_path, path.size());
  return address;
}

// The same for "@name", which is in the abstract namespace and lives as long as its socket.
struct UnixName {
  sockaddr_un address;
  socklen_t length_bytes;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};
inline std::optional<UnixName> unix_name(std::string_view name) {
  auto address = unix_address(name);
  if (!address || name.empty()) return std::nullopt;
  const bool abstract = name.front() == '@';
  if (abstract) address->sun_path[0] = '\0';
  const std::size_t length = offsetof(sockaddr_un, sun_path) + name.size() + (abstract ? 0 : 1);
  return UnixName{*address, static_cast<socklen_t>(length)};
}

}  // namespace fairlead
