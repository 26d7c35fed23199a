#include "event/http/http_source.h"

#include <sys/socket.h>

#include "base/address.h"
#include "base/linux/peer_credentials.h"

namespace fairlead::event {
HttpSource http_source_of(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return {};
  if (peer.ss_family == AF_UNIX) {
    const auto credentials = peer_credentials(fd);
    if (!credentials) return {};
    return {"uid " + std::to_string(credentials->uid), credentials->uid};
  }
  const auto address = SocketAddress::from(peer, length);
  return address ? HttpSource{address_block_name(*address), std::nullopt} : HttpSource{};
}

}  // namespace fairlead::event
