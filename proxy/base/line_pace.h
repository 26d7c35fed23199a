// A bound on the log lines that strangers can cause. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/time.h"

namespace fairlead {

// At most `burst` lines at once, and `burst` in each interval.
class LinePace {
 public:
  LinePace(unsigned burst, Duration interval) : burst_(burst), interval_(interval), left_(burst) {}

  // Nothing when the line has to be left out. Otherwise how many were, since the last one.
  std::optional<std::uint64_t> admit(TimePoint now) {
    if (now - begun_ >= interval_) {
      begun_ = now;
      left_ = burst_;
    }
    if (left_ == 0) {
      ++left_out_;
      return std::nullopt;
    }
    --left_;
    return std::exchange(left_out_, 0);
  }

 private:
  unsigned burst_;
  Duration interval_;
  unsigned left_;
  TimePoint begun_{};
  std::uint64_t left_out_ = 0;
};

}  // namespace fairlead
