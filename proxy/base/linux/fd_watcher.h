// The seam between whoever owns descriptors that wake it (a device) and whoever waits (the loop).
#pragma once

#include <cstdint>

#include "base/result.h"

namespace fairlead {

// A set of descriptors that wake the owner's thread.
class FdWatcher {
 public:
  enum class Trigger : std::uint8_t {
    kLevel,
    kEdge,  // each write to the descriptor is one event; it need never be read
  };
  virtual ~FdWatcher() = default;
  // Errors: kExhausted and others when the kernel refuses, kWrongState for a descriptor that it
  // cannot watch. Then the descriptor is not watched, and nothing else has changed.
  virtual Result<void> watch_readable(int fd, Trigger trigger) = 0;
  // Before the descriptor is closed. Nothing for one that is not watched.
  virtual void unwatch(int fd) = 0;
};

// Who is called for them.
class FdHandler {
 public:
  virtual void handle_readable(int fd) = 0;

 protected:
  ~FdHandler() = default;
};

}  // namespace fairlead
