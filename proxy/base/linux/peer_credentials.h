// The credentials of the process at the other end of a Unix socket. The kernel notes them at
// connect(2), and those of a listener at listen(2).
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <optional>

namespace fairlead {

// Nothing for other sockets. `pid` is 0 for a process outside of our PID namespace.
inline std::optional<ucred> peer_credentials(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return std::nullopt;
  return peer;
}

inline bool is_peer_of_user(int socket, uid_t user) {
  const auto peer = peer_credentials(socket);
  return peer && peer->uid == user;
}

// Root, or the user of this process.
inline bool is_peer_root_or_ours(int socket) {
  const auto peer = peer_credentials(socket);
  return peer && (peer->uid == 0 || peer->uid == ::geteuid());
}

}  // namespace fairlead
