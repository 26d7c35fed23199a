#include "ctl/echo.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/address.h"
#include "ctl/timed_socket.h"

namespace fairlead::ctl {
namespace {

constexpr const char* kLate = "the other pod did not answer in time";
constexpr std::size_t kChunkBytes = 64 * 1024;
constexpr int kBacklog = 16;

using Chunk = std::array<std::uint8_t, kChunkBytes>;

TimePoint now() { return std::chrono::steady_clock::now(); }

// The byte at this position of the stream. Its period is no power of two, so that bytes of a wrong
// position are noticed.
constexpr std::uint8_t pattern(std::uint64_t position) {
  return static_cast<std::uint8_t>(position % 251);
}

bool is_passing(int error_number) { return error_number == EAGAIN || error_number == EINTR; }

std::string peer_of(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return "";
  const auto address = SocketAddress::from(storage, length);
  return address ? to_string(address->unmapped()) : "";
}

// Returns all bytes to their sender, until its end of stream.
Result<std::uint64_t> return_all(int fd, TimePoint deadline) {
  Chunk chunk;
  std::uint64_t bytes = 0;
  for (;;) {
    const ssize_t received = ::recv(fd, chunk.data(), chunk.size(), 0);
    if (received == 0) return bytes;
    if (received > 0) {
      const auto part = std::span(chunk).first(static_cast<std::size_t>(received));
      SMC_TRY(send_all(fd, part, deadline, kLate));
      bytes += static_cast<std::uint64_t>(received);
    } else if (errno == EAGAIN) {
      SMC_TRY(wait_for(fd, POLLIN, deadline, kLate));
    } else if (errno != EINTR) {
      return system_error("recv", errno);
    }
  }
}

// One connection of the client: sends and receives at the same time, because neither side can hold
// all bytes.
class Exchange {
 public:
  Exchange(int fd, std::uint64_t bytes) : fd_(fd), bytes_(bytes) {}

  Result<void> run(TimePoint deadline) {
    while (!ended_) {
      const short events = static_cast<short>(POLLIN | (sent_ < bytes_ ? POLLOUT : 0));
      SMC_TRY(wait_for(fd_, events, deadline, kLate));
      SMC_TRY(send_some());
      SMC_TRY(receive_some());
    }
    if (received_ < bytes_) return Error{Errc::kPeerGone, "the connection ended early", 0};
    return {};
  }

 private:
  Result<void> send_some() {
    if (sent_ == bytes_) return {};
    const std::size_t count = std::min<std::uint64_t>(chunk_.size(), bytes_ - sent_);
    for (std::size_t i = 0; i < count; ++i) chunk_[i] = pattern(sent_ + i);
    const ssize_t sent = ::send(fd_, chunk_.data(), count, MSG_NOSIGNAL);
    if (sent < 0) {
      if (is_passing(errno)) return {};
      return system_error("send", errno);
    }
    sent_ += static_cast<std::uint64_t>(sent);
    if (sent_ == bytes_ && ::shutdown(fd_, SHUT_WR) != 0) return system_error("shutdown", errno);
    return {};
  }

  Result<void> receive_some() {
    const ssize_t received = ::recv(fd_, chunk_.data(), chunk_.size(), 0);
    if (received < 0) {
      if (is_passing(errno)) return {};
      return system_error("recv", errno);
    }
    ended_ = received == 0;
    const auto count = static_cast<std::size_t>(received);
    if (count > bytes_ - received_)
      return Error{Errc::kMalformed, "more bytes came back than were sent", 0};
    for (std::size_t i = 0; i < count; ++i)
      if (chunk_[i] != pattern(received_ + i))
        return Error{Errc::kMalformed, "other bytes came back than were sent", 0};
    received_ += count;
    return {};
  }

  int fd_;
  std::uint64_t bytes_, sent_ = 0, received_ = 0;
  bool ended_ = false;
  Chunk chunk_;
};

using Addresses = Handle<addrinfo, ::freeaddrinfo>;

Result<Addresses> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int rc = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (rc == EAI_SYSTEM) return system_error("name of the other pod", errno);
  if (rc != 0) return Error{Errc::kNotFound, "name of the other pod", 0};
  return Addresses(found);
}

Result<EchoResult> try_once(const std::string& host, std::uint16_t port, std::uint64_t bytes,
                            TimePoint deadline) {
  const Addresses addresses = SMC_TRY(resolve(host, port));
  Error failure{Errc::kNotFound, "address of the other pod", 0};
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    const auto connected = connect_to(each->ai_addr, each->ai_addrlen, deadline, kLate);
    if (!connected) {
      failure = connected.error();
      continue;
    }
    EchoResult result{peer_of(connected->get()), bytes, 0};
    SMC_TRY(Exchange(connected->get(), bytes).run(deadline));
    return result;
  }
  return failure;
}

}  // namespace

Result<EchoServer> EchoServer::listen(std::uint16_t port) {
  FileDescriptor fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool is_v6 = static_cast<bool>(fd);
  if (!is_v6) fd = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket", errno);
  const int on = 1;
  const int off = 0;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
    return system_error("SO_REUSEADDR", errno);
  if (is_v6 && ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0)
    return system_error("IPV6_V6ONLY", errno);
  const SocketAddress any =
      is_v6 ? SocketAddress(in6_addr{}, port) : SocketAddress(in_addr{}, port);
  if (::bind(fd.get(), any.data(), any.size()) != 0) return system_error("bind", errno);
  if (::listen(fd.get(), kBacklog) != 0) return system_error("listen", errno);
  return EchoServer(std::move(fd));
}

std::uint16_t EchoServer::port() const {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) return 0;
  const auto address = SocketAddress::from(storage, length);
  return address ? address->port() : 0;
}

Result<EchoResult> EchoServer::serve_one(TimePoint deadline) {
  for (;;) {
    SMC_TRY(wait_for(listener_.get(), POLLIN, deadline, "no connection came in time"));
    const FileDescriptor fd(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      // Connections that were reset meanwhile, and shortages that pass.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        return system_error("accept", errno);
      continue;
    }
    EchoResult result{peer_of(fd.get()), 0, 1};
    const auto returned = return_all(fd.get(), deadline);
    if (!returned || *returned == 0) continue;
    result.bytes = *returned;
    return result;
  }
}

Result<EchoResult> echo_exchange(const std::string& host, std::uint16_t port, std::size_t bytes,
                                 TimePoint deadline) {
  for (std::uint64_t attempts = 1;; ++attempts) {
    auto result = try_once(host, port, bytes, deadline);
    if (result) {
      result->attempts = attempts;
      return result;
    }
    if (result.error().code == Errc::kMalformed || now() + kEchoRetryInterval >= deadline)
      return result.error();
    std::this_thread::sleep_for(kEchoRetryInterval);
  }
}

}  // namespace fairlead::ctl
