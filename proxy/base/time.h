// Time is an argument in the pure layers and comes from the loop elsewhere, so that a simulation
// can turn the clock by hand. Monotonic; not wall time.
#pragma once

#include <chrono>

namespace fairlead {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

}  // namespace fairlead
