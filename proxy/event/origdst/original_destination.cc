#include "event/origdst/original_destination.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>

namespace fairlead::event {
namespace {

// linux/netfilter_ipv4.h and linux/netfilter_ipv6/ip6_tables.h, which do not go together with the C
// library's headers in C++.
constexpr int kSoOriginalDst = 80;
constexpr int kIp6SoOriginalDst = 80;

// What connection tracking holds as the destination of this connection. A mapped connection is an
// IPv4 one for the packet filter, so it must be asked for at the IPv4 level.
Result<SocketAddress> tracked_destination(int fd, bool is_v4) {
  sockaddr_storage original{};
  socklen_t length = is_v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  int rc = is_v4 ? ::getsockopt(fd, IPPROTO_IP, kSoOriginalDst, &original, &length)
                 : ::getsockopt(fd, IPPROTO_IPV6, kIp6SoOriginalDst, &original, &length);
  if (rc != 0) return system_error("SO_ORIGINAL_DST", errno);
  return SocketAddress::from(original, length);
}

// The kernel has no entry for the connection, or no connection tracking.
bool is_untracked(const Error& error) {
  return error.system == ENOENT || error.system == ENOPROTOOPT || error.system == EOPNOTSUPP;
}

}  // namespace

Result<SocketAddress> local_address(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return system_error("getsockname", errno);
  return Result<SocketAddress>(SMC_TRY(SocketAddress::from(address, length)).unmapped());
}

Result<SocketAddress> peer_address(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return system_error("getpeername", errno);
  return Result<SocketAddress>(SMC_TRY(SocketAddress::from(address, length)).unmapped());
}

Result<OriginalDestination> redirect_destination(int accepted_fd, const SocketAddress& peer,
                                                 std::uint16_t listener_port, bool& translated) {
  std::optional<SocketAddress> local;
  if (!translated) {
    local = SMC_TRY(local_address(accepted_fd));
    if (local->port() != listener_port) return OriginalDestination{*local, true};
  }
  const auto original = tracked_destination(accepted_fd, peer.unmapped().is_v4());
  if (!original && !is_untracked(original.error())) return Error(original.error());
  // The socket's own address has the listener's port.
  translated = original && original->port() != listener_port;
  if (translated) return OriginalDestination{*original, true};
  if (!local) local = SMC_TRY(local_address(accepted_fd));
  if (local->port() != listener_port) return OriginalDestination{*local, true};
  if (!original) return OriginalDestination{*local, false};
  return OriginalDestination{*original, *original != *local};
}

Result<OriginalDestination> tproxy_destination(int accepted_fd, const SocketAddress& listener) {
  SocketAddress local = SMC_TRY(local_address(accepted_fd));
  SocketAddress bound = listener.unmapped();
  bool same = local.port() == bound.port() && (bound.is_any() || local == bound);
  return OriginalDestination{local, !same};
}

Result<void> allow_foreign_addresses(int listener_fd) {
  int family = 0;
  socklen_t length = sizeof family;
  if (::getsockopt(listener_fd, SOL_SOCKET, SO_DOMAIN, &family, &length) != 0)
    return system_error("SO_DOMAIN", errno);
  int on = 1;
  int rc = family == AF_INET6
               ? ::setsockopt(listener_fd, IPPROTO_IPV6, IPV6_TRANSPARENT, &on, sizeof on)
               : ::setsockopt(listener_fd, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof on);
  if (rc != 0) return system_error("IP_TRANSPARENT", errno);
  return {};
}

}  // namespace fairlead::event
