#include "event/socket_buffers.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <fstream>
#include <string>

#include "base/linux/handle.h"

namespace fairlead::event {

void bound_memory(int fd, int bytes) {
  for (const int buffer : {SO_RCVBUF, SO_SNDBUF})
    (void)::setsockopt(fd, SOL_SOCKET, buffer, &bytes, sizeof bytes);
}

bool tune_memory(int fd) {
  const int unlocked = 0;
  return ::setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &unlocked, sizeof unlocked) == 0;
}

std::size_t tuned_memory_max_bytes() {
  static const std::size_t most = [] {
    std::size_t sum = 0;
    for (const char* const name : {"/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"}) {
      std::ifstream file(name);
      std::size_t least = 0, first = 0, largest = 0;
      if (!(file >> least >> first >> largest)) return std::size_t{0};
      sum += largest;
    }
    return sum;
  }();
  return most;
}

bool leave_memory_to_kernel(int fd) {
  const FileDescriptor fresh(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!tune_memory(fd)) return false;
  for (const int buffer : {SO_RCVBUF, SO_SNDBUF}) {
    int bytes = 0;
    socklen_t length = sizeof bytes;
    if (::getsockopt(fresh.get(), SOL_SOCKET, buffer, &bytes, &length) != 0) return false;
    bytes /= 2;  // the kernel doubles it
    (void)::setsockopt(fd, SOL_SOCKET, buffer, &bytes, sizeof bytes);
  }
  return tune_memory(fd);
}

void bound_receive_memory(int fd, int bytes) {
  (void)::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

void bound_send_memory(int fd, int bytes) {
  (void)::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

void bound_window(int fd, int bytes) {
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &bytes, sizeof bytes);
}

void bound_unsent(int fd, bool bound) {
  const unsigned bytes = bound ? 1 : 0;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

}  // namespace fairlead::event
