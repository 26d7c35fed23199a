// poll(2) for threads that do nothing else but wait: they must not spin where it fails.
#pragma once

#include <poll.h>

#include <chrono>
#include <span>

#include "base/time.h"

namespace fairlead {

inline constexpr std::size_t kWaitedMax = 8;
inline constexpr std::chrono::milliseconds kWaitRefusedPause{100};

// Waits for `waiting`, kWaitedMax entries at most, and fills in `revents`. Entries without a
// descriptor (-1) are left out, because poll(2) refuses more entries than RLIMIT_NOFILE has. 0
// after `timeout_milliseconds` (-1: none), -1 when interrupted or refused; a refusal is returned
// after kWaitRefusedPause.
int wait_for_events(std::span<pollfd> waiting, int timeout_milliseconds) noexcept;

// A timeout for it, an hour at most: 0 once `deadline` has passed.
int milliseconds_until(TimePoint deadline) noexcept;

}  // namespace fairlead
