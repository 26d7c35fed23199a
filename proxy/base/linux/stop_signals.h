// The signals that end a program in order: SIGTERM and SIGINT.
#pragma once

#include <csignal>

namespace fairlead {

inline sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

// Blocks them for this thread and those that it starts, and ignores SIGPIPE. Call it before the
// first thread.
inline void block_stop_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  const sigset_t set = stop_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

// Returns the number of the one that came. REQUIRES: they are blocked.
inline int wait_for_stop_signal() {
  const sigset_t set = stop_signals();
  int number = 0;
  ::sigwait(&set, &number);
  return number;
}

}  // namespace fairlead
