// Time is an argument in the pure layers and comes from the loop elsewhere, so that a simulation
// can turn the clock by hand. Monotonic; not wall time.
#pragma once

#include <chrono>
#include <optional>

namespace fairlead {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// When something is due although nothing happens; nothing if it never is.
using Deadline = std::optional<TimePoint>;

constexpr Deadline earliest(const Deadline& one, const Deadline& other) {
  if (!one || (other && *other < *one)) return other;
  return one;
}
constexpr bool is_due(const Deadline& deadline, TimePoint now) {
  return deadline && now >= *deadline;
}

}  // namespace fairlead
