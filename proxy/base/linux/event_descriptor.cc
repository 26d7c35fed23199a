#include "base/linux/event_descriptor.h"

#include <sys/eventfd.h>

#include <cerrno>

namespace fairlead {

Result<EventDescriptor> EventDescriptor::create() {
  FileDescriptor fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return system_error("eventfd", errno);
  return EventDescriptor(std::move(fd));
}

// A full counter means that a signal waits already.
void EventDescriptor::signal() const noexcept { (void)!::eventfd_write(fd_.get(), 1); }

bool EventDescriptor::take() const noexcept {
  eventfd_t count = 0;
  return ::eventfd_read(fd_.get(), &count) == 0;
}

}  // namespace fairlead
