// Descriptors whose last close(2) blocks: TCP sockets that linger with unsent data.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/linux/handle.h"

namespace fairlead {

// Makes such sockets, and keeps the other ends, which do not read. Its end ends the wait.
class LingeringSockets {
 public:
  static constexpr std::chrono::seconds kLinger{60};

  LingeringSockets() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int small = 4096;
    (void)::setsockopt(listener_.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address_;
    (void)::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address_), sizeof address_);
    (void)::listen(listener_.get(), 16);
    (void)::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address_), &length);
  }

  FileDescriptor make() {
    FileDescriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    (void)::connect(made.get(), reinterpret_cast<sockaddr*>(&address_), sizeof address_);
    others_.emplace_back(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::vector<char> data(64 << 10);
    while (::send(made.get(), data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    const linger wait{1, static_cast<int>(kLinger.count())};
    (void)::setsockopt(made.get(), SOL_SOCKET, SO_LINGER, &wait, sizeof wait);
    return made;
  }

  static void disarm(int fd) {
    const linger none{};
    (void)::setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
  }

 private:
  FileDescriptor listener_;
  sockaddr_in address_{};
  std::vector<FileDescriptor> others_;
};

// Sends any bytes with any descriptors over a Unix socket. False when the kernel refuses.
inline bool send_with_descriptors(int socket, std::span<const std::byte> bytes,
                                  std::span<const int> fds) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  std::vector<std::uint64_t> ancillary(CMSG_SPACE(fds.size_bytes()) / 8 + 1);
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = ancillary.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  return ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

}  // namespace fairlead
