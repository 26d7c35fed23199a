// Non-blocking sockets with a deadline, for programs that do one thing at a time.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <span>

#include "base/linux/handle.h"
#include "base/result.h"
#include "base/time.h"

namespace fairlead::ctl {

// Waits for `events` of poll(2). Errors: kTimedOut with `late`, and those of poll(2).
Result<void> wait_for(int fd, short events, TimePoint deadline, const char* late);

// A connected, non-blocking stream socket. Errors: as above, and those of connect(2).
Result<FileDescriptor> connect_to(const sockaddr* address, socklen_t length, TimePoint deadline,
                                  const char* late);

// Sends all bytes over a non-blocking stream socket. Errors: as wait_for, and those of send(2).
Result<void> send_all(int fd, std::span<const std::uint8_t> bytes, TimePoint deadline,
                      const char* late);

}  // namespace fairlead::ctl
