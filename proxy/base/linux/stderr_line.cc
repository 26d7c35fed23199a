#include "base/linux/stderr_line.h"

#include <poll.h>
#include <unistd.h>

namespace fairlead {

void write_stderr_line(std::string_view line) noexcept {
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  // With room for one page, a pipe takes up to PIPE_BUF bytes without blocking.
  if (::poll(&room, 1, kStderrWaitMilliseconds) != 1 || (room.revents & POLLOUT) == 0) return;
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace fairlead
