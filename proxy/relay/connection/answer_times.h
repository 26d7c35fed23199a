// How long the connecting side of a connection waits for the other side. A wait begins with the
// latest byte that it has sent, and ends with the next byte that comes back.
#pragma once

#include <algorithm>
#include <optional>

#include "base/time.h"

namespace fairlead::relay {

// Each session has one, so it is kept small.
class AnswerTimes {
 public:
  // Bytes have been sent, or have come back. Returns the wait that ends now if it is the first one.
  std::optional<Duration> note(bool asked, bool answered, TimePoint now) {
    std::optional<Duration> first;
    if (answered && waits()) {
      const Duration wait = now - since_;
      if (longest_ == kNone) first = wait;
      longest_ = std::max(longest_, wait);
      since_ = kNever;
    }
    if (asked) since_ = now;
    return first;
  }
  // The longest wait, including one that has not ended; empty if there was none.
  std::optional<Duration> longest(TimePoint now) const {
    const Duration longest = waits() ? std::max(longest_, now - since_) : longest_;
    return longest == kNone ? std::nullopt : std::optional(longest);
  }

 private:
  static constexpr TimePoint kNever{};
  static constexpr Duration kNone{-1};

  bool waits() const { return since_ != kNever; }

  TimePoint since_ = kNever;  // of a wait
  Duration longest_ = kNone;
};

}  // namespace fairlead::relay
