// Waits for the descriptors of a device with epoll(7), as the event loop does: level-triggered or
// edge-triggered as requested, so that descriptors which are never read do not wake the loop
// forever.
#pragma once

#include <sys/epoll.h>

#include <cerrno>

#include "base/linux/handle.h"
#include "rdma/device.h"

namespace fairlead::rdma {

class EpollWatcher final : public FdWatcher {
 public:
  EpollWatcher() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

  Result<void> watch_readable(int fd, Trigger trigger) override {
    epoll_event event{};
    event.events = EPOLLIN | (trigger == Trigger::kEdge ? static_cast<unsigned>(EPOLLET) : 0u);
    event.data.fd = fd;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
    ++failures_;
    return system_error("epoll_ctl", errno);
  }
  void unwatch(int fd) override {
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr) != 0) ++failures_;
  }

  // Passes readable descriptors to `device`; returns their number.
  int wait(Device& device, int timeout_milliseconds) {
    epoll_event events[16];
    const int count = ::epoll_wait(epoll_.get(), events, 16, timeout_milliseconds);
    for (int i = 0; i < count; ++i) device.handle_readable(events[i].data.fd);
    return count < 0 ? 0 : count;
  }

  int failures() const { return failures_; }  // calls with a descriptor that epoll refused

 private:
  FileDescriptor epoll_;
  int failures_ = 0;
};

}  // namespace fairlead::rdma
