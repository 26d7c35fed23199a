// Closes descriptors that other processes had, on a thread of its own. The last close(2) of a file
// can block for as long as its owner wants: a TCP socket lingers, FUSE asks its server, and a Unix
// socket closes what is unread in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/linux/handle.h"
#include "base/linux/task_thread.h"

namespace fairlead {

// Threads: all calls on one thread, that of the owner.
class DescriptorCloser {
 public:
  // From here on the owner receives no more: full().
  static constexpr std::size_t kWaitingMax = 1024;
  // More than a process can have (fs.nr_open), so that close() never closes on the caller's thread
  // for want of room.
  static constexpr std::size_t kQueueMax = std::size_t{1} << 31;

  DescriptorCloser() : thread_(kQueueMax) {}
  // For a caller whose thread serves nobody but the owner of the descriptors, and has a table of
  // its own: closes there. When `table_ends`, the descriptors are left to the end of the thread,
  // which does not wait for sockets that linger.
  explicit DescriptorCloser(std::function<bool()> table_ends)
      : table_ends_(std::move(table_ends)), thread_(kQueueMax) {}

  // Closes on the caller's thread with `table_ends`, or when no thread can be started.
  void close(FileDescriptor descriptor);
  // What waits in the owner's sockets has to stay there until this is false.
  bool full();

 private:
  std::function<bool()> table_ends_;
  std::size_t waiting_ = 0;  // at the last look
  TaskThread thread_;
};

// A descriptor that may have come from another process. A foreign one is closed by its closer,
// which outlives it; one of our own is closed here. Move only.
class ForeignDescriptor {
 public:
  ForeignDescriptor() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): one of our own is one with nothing to fear.
  ForeignDescriptor(FileDescriptor own) noexcept : fd_(std::move(own)) {}
  ForeignDescriptor(FileDescriptor foreign, DescriptorCloser& closer) noexcept
      : fd_(std::move(foreign)), closer_(&closer) {}
  ForeignDescriptor(ForeignDescriptor&& other) noexcept = default;
  ForeignDescriptor& operator=(ForeignDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::move(other.fd_);
      closer_ = other.closer_;
    }
    return *this;
  }
  ~ForeignDescriptor() { reset(); }

  int get() const noexcept { return fd_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  void reset() noexcept {
    if (fd_ && closer_ != nullptr) closer_->close(std::move(fd_));
    fd_.reset();
  }
  // For who has nothing to fear from it.
  FileDescriptor release() noexcept { return std::move(fd_); }
  // Closes here. REQUIRES: something else keeps the file, so that this close is not the last.
  void close_here() noexcept { fd_.reset(); }

 private:
  FileDescriptor fd_;
  DescriptorCloser* closer_ = nullptr;
};

}  // namespace fairlead
