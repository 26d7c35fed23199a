#include "bpf/self_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace fairlead::bpf {
namespace {

Result<SocketAddress> listen_on_loopback(int fd, const SocketAddress& loopback) {
  if (::bind(fd, loopback.data(), loopback.size()) != 0)
    return system_error("probe: bind to loopback", errno);
  if (::listen(fd, 1) != 0) return system_error("probe: listen", errno);
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0)
    return system_error("probe: getsockname", errno);
  return SocketAddress::from(bound, length);
}

// Waits for the one event of `fd`, at most until `deadline`.
Result<void> wait_for(int fd, short events, TimePoint deadline) {
  for (;;) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(
        deadline - std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()));
    pollfd waiting{fd, events, 0};
    int count = ::poll(&waiting, 1, left.count() > 0 ? static_cast<int>(left.count()) : 0);
    if (count > 0) return {};
    if (count == 0) return Error{Errc::kTimedOut, "probe: connecting over loopback"};
    if (errno != EINTR) return system_error("probe: poll", errno);
  }
}

Result<void> connect_client(int client, const SocketAddress& target, TimePoint deadline) {
  if (::connect(client, target.data(), target.size()) != 0 && errno != EINPROGRESS)
    return system_error("probe: connect", errno);
  SMC_TRY(wait_for(client, POLLOUT, deadline));
  int failure = 0;
  socklen_t length = sizeof failure;
  if (::getsockopt(client, SOL_SOCKET, SO_ERROR, &failure, &length) != 0)
    return system_error("probe: SO_ERROR", errno);
  if (failure != 0) return system_error("probe: connect", failure);
  return {};
}

}  // namespace

Result<SelfConnection> connect_to_self(const SocketAddress& loopback, TimePoint deadline,
                                       const SelfConnectionSteps& steps) {
  constexpr int kType = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  SelfConnection self;
  self.listener.reset(::socket(loopback.family(), kType, IPPROTO_TCP));
  if (!self.listener) return system_error("probe: socket", errno);
  if (steps.before_listen) SMC_TRY(steps.before_listen(self.listener.get()));
  const SocketAddress bound = SMC_TRY(listen_on_loopback(self.listener.get(), loopback));
  // A listener for IPv4-mapped addresses hears IPv4.
  const SocketAddress target = bound.unmapped();

  self.client.reset(::socket(target.family(), kType, IPPROTO_TCP));
  if (!self.client) return system_error("probe: socket", errno);
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  (void)::setsockopt(self.client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  if (steps.before_connect) SMC_TRY(steps.before_connect(self.client.get(), target));
  SMC_TRY(connect_client(self.client.get(), target, deadline));
  SMC_TRY(wait_for(self.listener.get(), POLLIN, deadline));
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  self.accepted.reset(
      ::accept4(self.listener.get(), reinterpret_cast<sockaddr*>(&peer), &length, SOCK_CLOEXEC));
  if (!self.accepted) return system_error("probe: accept", errno);
  self.accepted_peer = SMC_TRY(SocketAddress::from(peer, length));
  return self;
}

}  // namespace fairlead::bpf
