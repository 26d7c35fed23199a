#include "base/linux/wait.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/assert.h"

namespace fairlead {

int wait_for_events(std::span<pollfd> waiting, int timeout_milliseconds) noexcept {
  SMC_ASSERT(waiting.size() <= kWaitedMax, waiting.size());
  std::array<pollfd, kWaitedMax> present{};
  nfds_t count = 0;
  for (pollfd& one : waiting) {
    one.revents = 0;
    if (one.fd >= 0) present[count++] = one;
  }
  const int ready = ::poll(present.data(), count, timeout_milliseconds);
  if (ready < 0) {
    const int error = errno;
    if (error != EINTR) (void)::poll(nullptr, 0, static_cast<int>(kWaitRefusedPause.count()));
    errno = error;
    return ready;
  }
  auto from = present.begin();
  for (pollfd& one : waiting)
    if (one.fd >= 0) one.revents = (from++)->revents;
  return ready;
}

int milliseconds_until(TimePoint deadline) noexcept {
  const TimePoint now = std::chrono::steady_clock::now();
  const TimePoint until = std::clamp(deadline, now, now + std::chrono::hours(1));
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(until - now).count());
}

}  // namespace fairlead
