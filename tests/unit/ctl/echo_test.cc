// Goal: all bytes come back, or the reason is printed, whatever the other side does.
#include "ctl/echo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <future>

#include "ctl/timed_socket.h"

namespace fairlead::ctl {
namespace {

constexpr auto kPatience = std::chrono::minutes(5);
constexpr std::size_t kBytes = 5'000'000;  // more than the sockets hold

TimePoint soon() { return std::chrono::steady_clock::now() + kPatience; }

FileDescriptor connect_to_port(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  auto fd = connect_to(reinterpret_cast<const sockaddr*>(&address), sizeof(address), soon(), "");
  EXPECT_TRUE(fd);
  return fd ? std::move(*fd) : FileDescriptor();
}

TEST(Echo, ReturnsAllBytes) {
  auto server = EchoServer::listen(0);
  ASSERT_TRUE(server);
  auto served = std::async(std::launch::async, [&] { return server->serve_one(soon()); });
  const auto sent = echo_exchange("127.0.0.1", server->port(), kBytes, soon());
  const auto returned = served.get();
  ASSERT_TRUE(sent) << to_string(sent.error());
  ASSERT_TRUE(returned) << to_string(returned.error());
  EXPECT_EQ(sent->bytes, kBytes);
  EXPECT_EQ(returned->bytes, kBytes);
  EXPECT_EQ(sent->peer, "127.0.0.1:" + std::to_string(server->port()));
}

TEST(Echo, PassesOverConnectionsWithoutBytes) {
  auto server = EchoServer::listen(0);
  ASSERT_TRUE(server);
  auto served = std::async(std::launch::async, [&] { return server->serve_one(soon()); });
  connect_to_port(server->port());
  const auto sent = echo_exchange("127.0.0.1", server->port(), 1, soon());
  EXPECT_TRUE(sent);
  const auto returned = served.get();
  ASSERT_TRUE(returned);
  EXPECT_EQ(returned->bytes, 1u);
}

TEST(Echo, NamesBytesThatAreNotTheSame) {
  const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  auto liar = std::async(std::launch::async, [&] {
    const FileDescriptor fd(::accept(listener.get(), nullptr, nullptr));
    const char wrong = 7;
    EXPECT_EQ(::send(fd.get(), &wrong, 1, MSG_NOSIGNAL), 1);
    char all[64];
    while (::recv(fd.get(), all, sizeof(all), 0) > 0) {
    }
  });
  const auto sent = echo_exchange("127.0.0.1", ntohs(address.sin_port), 100, soon());
  liar.get();
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Errc::kMalformed);
}

TEST(Echo, EndsWithTheLastFailureWhenTheTimeIsOver) {
  std::uint16_t port = 0;
  {
    auto server = EchoServer::listen(0);
    ASSERT_TRUE(server);
    port = server->port();
  }
  const auto sent = echo_exchange("127.0.0.1", port, 1, std::chrono::steady_clock::now());
  ASSERT_FALSE(sent);
  const auto unknown =
      echo_exchange("no-such-host.invalid", 7, 1, std::chrono::steady_clock::now());
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Errc::kNotFound);
  auto server = EchoServer::listen(0);
  ASSERT_TRUE(server);
  const auto served = server->serve_one(std::chrono::steady_clock::now());
  ASSERT_FALSE(served);
  EXPECT_EQ(served.error().code, Errc::kTimedOut);
}

}  // namespace
}  // namespace fairlead::ctl
