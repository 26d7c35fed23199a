#include "bpf/held_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

#include "bpf/redirect.h"

namespace fairlead::bpf {
namespace {

constexpr int kFastOpenNoCookie = 34;  // TCP_FASTOPEN_NO_COOKIE, unknown to older headers
// How often the kernel repeats a SYN/ACK, at doubling intervals: longer than any connect(2) waits.
constexpr int kAnswerRetries = 20;

void set_priority(int fd, int priority) {
  (void)::setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority);
}

int priority_of_failure(int error) {
  switch (error) {
    case EHOSTUNREACH:
    case EACCES:
    case EPERM:
      return FAIRLEAD_HELD_HOST_UNREACHABLE;
    case ENETUNREACH:
      return FAIRLEAD_HELD_NET_UNREACHABLE;
    case ETIMEDOUT:
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EADDRNOTAVAIL:
      return FAIRLEAD_HELD_SILENT;
    default:  // its SYN/ACK must not pass before the reset
      return FAIRLEAD_HELD;
  }
}

}  // namespace

void let_hold(int listener_fd) {
  const int on = 1, held_max = kHeldMax, retries = kAnswerRetries;
  (void)::setsockopt(listener_fd, IPPROTO_TCP, TCP_FASTOPEN, &held_max, sizeof held_max);
  (void)::setsockopt(listener_fd, IPPROTO_TCP, kFastOpenNoCookie, &on, sizeof on);
  (void)::setsockopt(listener_fd, IPPROTO_TCP, TCP_SYNCNT, &retries, sizeof retries);
}

void stop_holding(int listener_fd) {
  const int none = 0;
  (void)::setsockopt(listener_fd, IPPROTO_TCP, TCP_FASTOPEN, &none, sizeof none);
}

bool is_held(int accepted_fd) {
  int priority = 0;
  socklen_t length = sizeof priority;
  return ::getsockopt(accepted_fd, SOL_SOCKET, SO_PRIORITY, &priority, &length) == 0 &&
         priority == FAIRLEAD_HELD;
}

void answer_held(int accepted_fd) { set_priority(accepted_fd, 0); }

bool handshake_over(int accepted_fd) {
  tcp_info info{};
  socklen_t length = sizeof info;
  return ::getsockopt(accepted_fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
         info.tcpi_state != TCP_SYN_RECV;
}

void refuse_held(int accepted_fd, int error) {
  if (is_held(accepted_fd)) set_priority(accepted_fd, priority_of_failure(error));
}

}  // namespace fairlead::bpf
