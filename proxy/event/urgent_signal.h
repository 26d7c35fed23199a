// How a thread learns, without a system call for each read, that urgent data (MSG_OOB) may have
// come to one of its sockets.
//
// The kernel sends SIGURG to the owner of a socket before the urgent byte can be read. A read that
// would begin at the urgent byte fails with EAGAIN while that signal is pending. A signal that is
// handled just before the system call is not pending any more; for that instant the handler itself
// makes the read void (MarkedRead). It cannot ask for the mark: the kernel sets that only after it
// has sent the signal.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

namespace fairlead::event {

// Makes the calling thread the owner of `fd`; it must be the thread that reads. Failures cost no
// byte: urgent data then arrives as ordinary data.
void own_urgent_signals(int fd);

// How many SIGURG the calling thread has got. It wraps.
unsigned urgent_signals();

// The buffers of one read, for readv(2). A SIGURG while it lives cuts the buffers to nothing. If
// the system call comes after the signal, it takes no byte and returns 0, which is not the end of
// the stream. At most one at a time in a thread.
class MarkedRead {
 public:
  static constexpr std::size_t kPiecesMax = 4;

  // Ranges beyond kPiecesMax are left out.
  explicit MarkedRead(std::span<const iovec> into);
  ~MarkedRead();
  MarkedRead(const MarkedRead&) = delete;
  MarkedRead& operator=(const MarkedRead&) = delete;

  std::span<const iovec> pieces() const { return std::span(pieces_).first(count_); }

  // For the handler of SIGURG. Async-signal-safe.
  void make_void();

 private:
  std::size_t count_;
  std::array<iovec, kPiecesMax> pieces_{};
};

}  // namespace fairlead::event
