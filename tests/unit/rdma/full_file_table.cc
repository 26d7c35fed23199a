#include "unit/rdma/full_file_table.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<bool> next_finds_no_file{false};

}  // namespace

// Stands in front of that of the C library.
extern "C" int accept4(int socket, sockaddr* address, socklen_t* length, int flags) {
  if (next_finds_no_file.exchange(false)) {
    errno = ENFILE;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_accept4, socket, address, length, flags));
}

namespace fairlead::rdma::shm {

void let_next_accept_find_no_file() { next_finds_no_file = true; }

}  // namespace fairlead::rdma::shm
