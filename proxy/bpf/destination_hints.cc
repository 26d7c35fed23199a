#include "bpf/destination_hints.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/assert.h"

namespace fairlead::bpf {
namespace {

FileDescriptor udp_socket(int family) {
  return FileDescriptor(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

}  // namespace

Result<DestinationHints> DestinationHints::open() {
  FileDescriptor ipv4 = udp_socket(AF_INET);
  if (!ipv4) return system_error("socket for the redirect programs", errno);
  DestinationHints opened(std::move(ipv4), udp_socket(AF_INET6));
  SMC_TRY(opened.forget_all());
  return opened;
}

Result<void> DestinationHints::leave_alone(const SocketAddress& to, unsigned level) {
  SMC_ASSERT(level >= 1 && level <= FAIRLEAD_REDIRECT_LEVELS, level);
  return tell(to, static_cast<int>(level));
}

Result<void> DestinationHints::answers(const SocketAddress& to) {
  return tell(to, FAIRLEAD_REDIRECT_ANSWERS);
}

Result<void> DestinationHints::forget(const SocketAddress& to) {
  return tell(to, FAIRLEAD_REDIRECT_UNKNOWN);
}

Result<void> DestinationHints::forget_all() {
  return tell(SocketAddress(), FAIRLEAD_REDIRECT_UNKNOWN);
}

Result<void> DestinationHints::tell(const SocketAddress& to, int word) {
  const FileDescriptor& socket = to.is_v4() ? ipv4_ : ipv6_;
  if (!socket) return Error{Errc::kUnsupported, "IPv6 on this host"};
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_PRIORITY, &word, sizeof word) != 0)
    return system_error("priority of the socket for the redirect programs", errno);
  const int result = ::connect(socket.get(), to.data(), to.size());
  if (result != 0 && errno == EPERM) return {};
  return Error{Errc::kUnsupported, "no redirect program of this pod hears the sidecar"};
}

Result<std::uint64_t> DestinationHints::direct_connections() const {
  sockaddr_in name{};
  socklen_t length = sizeof name;
  if (::getsockname(ipv4_.get(), reinterpret_cast<sockaddr*>(&name), &length) != 0)
    return system_error("count of the redirect programs", errno);
  return std::uint64_t{name.sin_addr.s_addr} | std::uint64_t{name.sin_port} << 32;
}

}  // namespace fairlead::bpf
