// A client that may misbehave: it sends any bytes and notices when the server closes.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include "base/linux/handle.h"
#include "event/http/http_endpoint.h"

namespace fairlead::event {

class RawClient {
 public:
  explicit RawClient(const HttpEndpoint& endpoint)
      : RawClient(::socket(endpoint.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), endpoint) {}
  // Takes the socket.
  RawClient(int fd, const HttpEndpoint& endpoint) : fd_(fd) {
    EXPECT_EQ(::connect(fd_.get(), endpoint.data(), endpoint.size()), 0) << errno;
  }

  // False once the server has closed.
  bool send(std::string_view bytes) {
    return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }

  // True when something can be read, also the end, within the time.
  bool readable_within(int milliseconds) {
    pollfd waited{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&waited, 1, milliseconds) > 0;
  }

  // All bytes until the server closes; the test fails if it does not close.
  std::string read_to_end() {
    constexpr int kPatienceMilliseconds = 120'000;
    std::string bytes;
    std::array<char, 4096> chunk;
    while (readable_within(kPatienceMilliseconds)) {
      const ssize_t received = ::recv(fd_.get(), chunk.data(), chunk.size(), 0);
      if (received <= 0) return bytes;
      bytes.append(chunk.data(), static_cast<std::size_t>(received));
    }
    ADD_FAILURE() << "the server did not hang up";
    return bytes;
  }

  int fd() const { return fd_.get(); }

 private:
  FileDescriptor fd_;
};

// What the server says to a client that sends these bytes.
inline std::string answer_to(const HttpEndpoint& endpoint, std::string_view bytes) {
  RawClient client(endpoint);
  client.send(bytes);
  return client.read_to_end();
}

}  // namespace fairlead::event
