// The monotonic clock of a worker: that of the loop, or that of a simulation.
#pragma once

#include "base/time.h"

namespace fairlead {

class Clock {
 public:
  virtual TimePoint now() const = 0;

 protected:
  ~Clock() = default;
};

}  // namespace fairlead
