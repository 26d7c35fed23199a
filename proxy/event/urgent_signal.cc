#include "event/urgent_signal.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace fairlead::event {
namespace {

// Written by the handler on its own thread only.
thread_local volatile unsigned signals_of_thread = 0;

void on_urgent(int) { signals_of_thread = signals_of_thread + 1; }

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

}  // namespace fairlead::event
