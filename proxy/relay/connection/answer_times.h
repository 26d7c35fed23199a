// How long the side of a connection that connected waits for the other one. The wait begins with
// the latest byte that it has sent, and ends with the next one that comes back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/time.h"

namespace fairlead::relay {

class AnswerTimes {
 public:
  // How many bytes have passed in all, both ways. Returns the wait that is over if it was the
  // first.
  std::optional<Duration> note(std::uint64_t asked, std::uint64_t answered, TimePoint now) {
    std::optional<Duration> first;
    if (answered > answered_ && since_) {
      const Duration wait = now - *since_;
      if (!longest_) first = wait;
      longest_ = std::max(longest_.value_or(wait), wait);
      since_.reset();
    }
    if (asked > asked_) since_ = now;
    asked_ = asked;
    answered_ = answered;
    return first;
  }
  // Also one that has not ended. Nothing if there was none.
  std::optional<Duration> longest(TimePoint now) const {
    if (!since_) return longest_;
    return std::max(longest_.value_or(Duration::zero()), now - *since_);
  }

 private:
  std::uint64_t asked_ = 0;
  std::uint64_t answered_ = 0;
  std::optional<TimePoint> since_;  // of a wait
  std::optional<Duration> longest_;
};

}  // namespace fairlead::relay
