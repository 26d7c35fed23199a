// How much processor time the calling thread has used. Unlike the time that passed it does not grow
// while others run.
#pragma once

#include <ctime>

#include "base/time.h"

namespace fairlead {

inline Duration thread_cpu_time() {
  timespec used{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace fairlead
