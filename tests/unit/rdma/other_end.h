// What one end of a Unix socket tells of the other.
#pragma once

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

namespace fairlead::rdma::shm {

inline constexpr int kHangMilliseconds = 30'000;

inline bool is_hung_up(int socket, int wait_milliseconds = 0) {
  pollfd state{socket, 0, 0};
  return ::poll(&state, 1, wait_milliseconds) == 1 && (state.revents & POLLHUP) != 0;
}
// For what is closed on a thread of its own.
inline bool gets_hung_up(int socket) { return is_hung_up(socket, kHangMilliseconds); }

// The other end has not read all that was sent.
inline bool has_unread(int socket) {
  int unread_bytes = 0;
  return ::ioctl(socket, SIOCOUTQ, &unread_bytes) == 0 && unread_bytes != 0;
}

}  // namespace fairlead::rdma::shm
