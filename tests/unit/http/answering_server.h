// A server that gives each connection the same bytes, whether they are an answer or not.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "base/linux/handle.h"
#include "event/http/http_endpoint.h"

namespace fairlead::event {

class AnsweringServer {
 public:
  enum class After { kClose, kWaitForClient };

  // On an abstract socket; one that closes has read the head of a request before it answers.
  explicit AnsweringServer(std::string answer, After after = After::kClose)
      : AnsweringServer(*HttpEndpoint::parse("@fairlead-answering-" + std::to_string(::getpid())),
                        std::move(answer), after) {}
  // On a port of 127.0.0.1.
  static AnsweringServer over_tcp(std::string answer) {
    return {*HttpEndpoint::parse("127.0.0.1:0"), std::move(answer), After::kWaitForClient};
  }
  ~AnsweringServer() { stop(); }
  AnsweringServer(const AnsweringServer&) = delete;
  AnsweringServer& operator=(const AnsweringServer&) = delete;

  const HttpEndpoint& endpoint() const { return endpoint_; }
  std::uint16_t port() const {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    return ntohs(address.sin_port);
  }
  void stop() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }
  // Of the last connection. REQUIRES: stop()
  const std::string& request() const { return request_; }

 private:
  AnsweringServer(const HttpEndpoint& endpoint, std::string answer, After after)
      : endpoint_(endpoint),
        answer_(std::move(answer)),
        after_(after),
        listener_(::socket(endpoint.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    EXPECT_EQ(::bind(listener_.get(), endpoint_.data(), endpoint_.size()), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    thread_ = std::thread([this] { serve(); });
  }

  void serve() {
    for (;;) {
      const FileDescriptor peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (peer.get() < 0) return;
      request_.clear();
      const bool waits = after_ == After::kWaitForClient;
      while (!waits && request_.find("\r\n\r\n") == std::string::npos && read_more(peer.get())) {
      }
      ssize_t count = 0;
      for (std::size_t sent = 0; count >= 0 && sent < answer_.size();
           sent += static_cast<std::size_t>(std::max<ssize_t>(count, 0)))
        count = ::send(peer.get(), answer_.data() + sent, answer_.size() - sent, MSG_NOSIGNAL);
      while (waits && read_more(peer.get())) {
      }
    }
  }

  bool read_more(int peer) {
    std::array<char, 4096> part;
    const ssize_t received = ::recv(peer, part.data(), part.size(), 0);
    if (received > 0) request_.append(part.data(), static_cast<std::size_t>(received));
    return received > 0;
  }

  HttpEndpoint endpoint_;
  std::string answer_;
  After after_;
  FileDescriptor listener_;
  std::string request_;
  std::thread thread_;
};

}  // namespace fairlead::event
