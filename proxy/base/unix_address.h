// Names of UNIX sockets as system calls take them.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

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

}  // namespace fairlead
