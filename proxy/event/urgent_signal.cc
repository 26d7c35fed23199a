#include "event/urgent_signal.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

namespace fairlead::event {
namespace {

// The handler runs on the thread that owns the socket, so it sees that thread's own.
thread_local volatile unsigned signals_of_thread = 0;
thread_local MarkedRead* volatile read_of_thread = nullptr;

void on_urgent(int) {
  signals_of_thread = signals_of_thread + 1;
  if (read_of_thread != nullptr) read_of_thread->make_void();
}

bool install_handler() {
  struct sigaction action {};
  action.sa_handler = on_urgent;
  action.sa_flags = SA_RESTART;
  return ::sigaction(SIGURG, &action, nullptr) == 0;
}

pid_t prepare_thread() {
  static const bool installed = install_handler();
  (void)installed;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGURG);
  (void)::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  return ::gettid();
}

}  // namespace

void own_urgent_signals(int fd) {
  thread_local const pid_t thread = prepare_thread();
  const f_owner_ex owner{F_OWNER_TID, thread};
  (void)::fcntl(fd, F_SETOWN_EX, &owner);
}

unsigned urgent_signals() { return signals_of_thread; }

MarkedRead::MarkedRead(std::span<const iovec> into) : count_(std::min(into.size(), kPiecesMax)) {
  std::copy_n(into.begin(), count_, pieces_.begin());
  std::atomic_signal_fence(std::memory_order_seq_cst);
  read_of_thread = this;
}

MarkedRead::~MarkedRead() { read_of_thread = nullptr; }

void MarkedRead::make_void() {
  for (std::size_t piece = 0; piece < count_; ++piece) pieces_[piece].iov_len = 0;
}

}  // namespace fairlead::event
