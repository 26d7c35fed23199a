#include "ctl/timed_socket.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>

namespace fairlead::ctl {

Result<void> wait_for(int fd, short events, TimePoint deadline, const char* late) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())
            .count();
    if (left <= 0) return Error{Errc::kTimedOut, late, 0};
    pollfd waited{.fd = fd, .events = events, .revents = 0};
    const int rc =
        ::poll(&waited, 1,
               static_cast<int>(std::min<std::int64_t>(left, std::numeric_limits<int>::max())));
    if (rc > 0) return {};
    if (rc < 0 && errno != EINTR) return system_error("poll", errno);
  }
}

Result<FileDescriptor> connect_to(const sockaddr* address, socklen_t length, TimePoint deadline,
                                  const char* late) {
  FileDescriptor fd(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket", errno);
  if (::connect(fd.get(), address, length) == 0) return fd;
  if (errno != EINPROGRESS) return system_error("connect", errno);
  SMC_TRY(wait_for(fd.get(), POLLOUT, deadline, late));
  int failure = 0;
  socklen_t size = sizeof(failure);
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &size) != 0) failure = errno;
  if (failure != 0) return system_error("connect", failure);
  return fd;
}

Result<void> send_all(int fd, std::span<const std::uint8_t> bytes, TimePoint deadline,
                      const char* late) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      SMC_TRY(wait_for(fd, POLLOUT, deadline, late));
    } else if (errno != EINTR) {
      return system_error("send", errno);
    }
  }
  return {};
}

}  // namespace fairlead::ctl
