// A clock that stands still until the test sets it.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace fairlead::relay {

class SetClock final : public Clock {
 public:
  TimePoint now() const override { return at; }
  TimePoint at{std::chrono::hours(1)};
};

}  // namespace fairlead::relay
