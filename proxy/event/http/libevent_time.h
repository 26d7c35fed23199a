// Durations in libevent's terms. Private to this folder.
#pragma once

#include <sys/time.h>

#include "base/time.h"

namespace fairlead::event {

inline timeval to_timeval(Duration duration) {
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
  return {.tv_sec = micros / 1000000, .tv_usec = micros % 1000000};
}

}  // namespace fairlead::event
