#include "event/http/http_listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>

#include "base/address.h"
#include "base/linux/record_socket.h"
#include "base/linux/socket_file.h"
#include "base/linux/unix_socket.h"

namespace fairlead::event {
namespace {

constexpr int kBacklog = 4096;  // the kernel takes net.core.somaxconn where that is less
// An answer that its client does not read waits in this memory of the kernel and of the server; a
// client that acknowledges nothing loses its connection, also after the server has closed it.
constexpr int kSendBufferBytes = 64 * 1024;
constexpr unsigned kUnacknowledgedMaxMilliseconds = 20'000;

// Sockets that are accepted inherit these.
Result<void> prepare_tcp(int fd) {
  const int on = 1;
  if (::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
    return system_error("setsockopt SO_REUSEADDR", errno);
  if (::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof(kSendBufferBytes)) != 0)
    return system_error("setsockopt SO_SNDBUF", errno);
  if (::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledgedMaxMilliseconds,
                   sizeof(kUnacknowledgedMaxMilliseconds)) != 0)
    return system_error("setsockopt TCP_USER_TIMEOUT", errno);
  return {};
}

// "[::]:PORT", which stands for all addresses of both families.
std::optional<SocketAddress> any6_of(const HttpEndpoint& endpoint) {
  if (!endpoint.is_tcp()) return std::nullopt;
  const SocketAddress& address = endpoint.tcp();
  if (!address.is_v6() || !address.is_any()) return std::nullopt;
  return address;
}

}  // namespace

Result<FileDescriptor> open_http_listener(const HttpEndpoint& endpoint) {
  if (endpoint.is_unix_path()) remove_stale_socket(endpoint.path(), SOCK_STREAM);
  FileDescriptor fd(
      ::socket(endpoint.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto any = any6_of(endpoint);
  if (!fd && errno == EAFNOSUPPORT && any)
    return open_http_listener(HttpEndpoint(SocketAddress(in_addr{INADDR_ANY}, any->port())));
  if (!fd) return system_error("socket", errno);
  if (endpoint.is_tcp()) SMC_TRY(prepare_tcp(fd.get()));
  // libevent would leave them to the kernel, which closes them on our thread.
  if (!endpoint.is_tcp()) refuse_descriptors(fd.get());
  const int off = 0;
  if (any && ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0)
    return system_error("setsockopt IPV6_V6ONLY", errno);
  if (!endpoint.is_tcp())
    SMC_TRY(bind_unix_socket(fd.get(), endpoint.local(), 0600));
  else if (::bind(fd.get(), endpoint.data(), endpoint.size()) != 0)
    return system_error("bind", errno);
  if (::listen(fd.get(), kBacklog) != 0) return system_error("listen", errno);
  return fd;
}

Result<HttpEndpoint> bound_http_endpoint(const HttpEndpoint& asked, int fd) {
  if (!asked.is_tcp()) return asked;
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return system_error("getsockname", errno);
  return HttpEndpoint(SMC_TRY(SocketAddress::from(address, length)));
}

}  // namespace fairlead::event
