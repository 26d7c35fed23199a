#include "event/http/http_source.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "base/address.h"

namespace fairlead::event {
namespace {

constexpr std::size_t kPrefixBytes = 8;  // of a /64

std::string name_of(const SocketAddress& peer) {
  const SocketAddress plain = peer.unmapped();
  if (plain.is_v4() || plain.is_loopback()) return to_string_without_port(plain);
  in6_addr prefix{};
  std::copy_n(plain.bytes().begin(), kPrefixBytes, prefix.s6_addr);
  return to_string_without_port(SocketAddress(prefix, 0)) + "/64";
}

}  // namespace

HttpSource http_source_of(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return {};
  if (peer.ss_family == AF_UNIX) {
    ucred credentials{};
    socklen_t bytes = sizeof(credentials);
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) return {};
    return {"uid " + std::to_string(credentials.uid), credentials.uid};
  }
  const auto address = SocketAddress::from(peer, length);
  return address ? HttpSource{name_of(*address), std::nullopt} : HttpSource{};
}

}  // namespace fairlead::event
