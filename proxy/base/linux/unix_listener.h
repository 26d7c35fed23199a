// A listening Unix socket for records (SOCK_SEQPACKET). A connection that cannot be accepted, for
// want of descriptors, leaves it readable, and nothing tells when it can be: the listener is deaf
// for a pause then, so that its owner does not spin.
//
// Threads: all calls on one thread, that of the owner.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "base/linux/descriptor_closer.h"
#include "base/linux/fd_watcher.h"
#include "base/linux/handle.h"
#include "base/linux/unix_address.h"
#include "base/result.h"
#include "base/time.h"

namespace fairlead {

class UnixListener {
 public:
  struct Options {
    int backlog = 1;
    std::optional<mode_t> mode{};  // of the file of a path
    const char* what = "bind";     // names bind(2) in errors
    // With a spare descriptor, a connection for which there is none is taken and closed. Without
    // one it waits.
    bool keeps_spare = false;
    Duration pause = std::chrono::milliseconds(100);
  };

  UnixListener() = default;  // none
  // Errors: of socket(2), fchmod(2), bind(2) and listen(2).
  static Result<UnixListener> open(const UnixAddress& address, const Options& options);

  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  int descriptor() const noexcept { return fd_.get(); }
  void close() noexcept { fd_.reset(); }
  // From now on `closer`, which outlives them, closes the listener and what it accepts: strangers
  // may have sent descriptors there. Without it they are closed here.
  void close_with(DescriptorCloser& closer);

  // A connection, non-blocking and closed on exec. Errors: kWouldBlock when none waits, kExhausted
  // when one was taken and closed; after others one may wait, and the listener is deaf.
  Result<ForeignDescriptor> accept();

  // The end of the pause; nothing while it hears. For poll(2): until then it is left out.
  Deadline deaf_until() const;

  // For a loop: has it watch the listener while it is not deaf; null: no longer. It outlives that.
  // After a pause the owner calls accept() until kWouldBlock: then it is watched again.
  Result<void> set_watcher(FdWatcher* watcher);
  bool pause_is_over() const;
  // Deaf for a pause from now on.
  void be_deaf();

 private:
  UnixListener(FileDescriptor fd, const Options& options);
  ForeignDescriptor take() const;
  void open_spare();
  void hear();

  bool keeps_spare_ = false;
  Duration pause_{};
  DescriptorCloser* closer_ = nullptr;
  ForeignDescriptor fd_;
  FileDescriptor spare_;  // given up for a moment when descriptors are used up
  FdWatcher* watcher_ = nullptr;
  Deadline deaf_until_;  // with a watcher: it does not watch, also when the pause is over
};

}  // namespace fairlead
