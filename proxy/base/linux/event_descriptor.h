// A descriptor that is readable once somebody has signalled it, eventfd(2). It ends or wakes a
// thread that waits for descriptors.
#pragma once

#include "base/linux/handle.h"
#include "base/result.h"

namespace fairlead {

class EventDescriptor {
 public:
  EventDescriptor() = default;  // none
  // Errors: of eventfd(2).
  static Result<EventDescriptor> create();

  int get() const noexcept { return fd_.get(); }
  // Any thread. A signal before the last one was taken adds nothing.
  void signal() const noexcept;
  // True if it was signalled since it was last taken. Never waits.
  bool take() const noexcept;
  void close() noexcept { fd_.reset(); }

 private:
  explicit EventDescriptor(FileDescriptor fd) : fd_(std::move(fd)) {}
  FileDescriptor fd_;
};

}  // namespace fairlead
