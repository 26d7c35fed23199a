// Goal: all bytes come back, or the reason is printed, whatever the other side does.
#include "ctl/echo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <future>

#include "ctl/timed_socket.h"
#include "unit/http/answering_server.h"

namespace fairlead::ctl {
namespace {

constexpr auto kPatience = std::chrono::minutes(5);
constexpr std::size_t kBytes = 5'000'000;  // more than the sockets hold

TimePoint soon() { return std::chrono::steady_clock::now() + kPatience; }

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
  const SocketAddress address(in_addr{htonl(INADDR_LOOPBACK)}, server->port());
  EXPECT_TRUE(connect_to(address.data(), address.size(), soon(), ""));
  const auto sent = echo_exchange("127.0.0.1", server->port(), 1, soon());
  EXPECT_TRUE(sent);
  const auto returned = served.get();
  ASSERT_TRUE(returned);
  EXPECT_EQ(returned->bytes, 1u);
}

TEST(Echo, NamesBytesThatAreNotTheSame) {
  const auto liar = event::AnsweringServer::over_tcp("\x07");
  const auto sent = echo_exchange("127.0.0.1", liar.port(), 100, soon());
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
