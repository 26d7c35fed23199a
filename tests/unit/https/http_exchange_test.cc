// Goal: an answer is bounded however the server sends it, and its beginning is given on request.
// Method: a server of the test that sends given bytes, and no more until the client has gone.
#include "event/https/http_exchange.h"

#include <arpa/inet.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>

#include "base/linux/handle.h"
#include "event/http/http_server.h"

namespace fairlead::event {
namespace {

class Server {
 public:
  explicit Server(std::string answer)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), answer_(std::move(answer)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), raw, size), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener_.get(), raw, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() { thread_.join(); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  std::uint16_t port() const { return port_; }

 private:
  void serve() const {
    const FileDescriptor peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::size_t sent = 0;
    for (ssize_t count = 0; count >= 0 && sent < answer_.size();
         sent += static_cast<std::size_t>(std::max<ssize_t>(count, 0)))
      count = ::send(peer.get(), answer_.data() + sent, answer_.size() - sent, MSG_NOSIGNAL);
    std::array<char, 4096> part;
    while (::recv(peer.get(), part.data(), part.size(), 0) > 0) {
    }
  }

  FileDescriptor listener_;
  std::string answer_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

Result<std::optional<HttpsReply>> ask(const std::string& answer, bool accept_beginning) {
  const Server server(answer);
  const HttpBaseHandle base(event_base_new());
  HttpsTarget target;
  target.host = "127.0.0.1";
  target.port = server.port();
  HttpsRequest request;
  request.path = "/p";
  request.reply_bytes_max = 100'000;
  request.accept_beginning = accept_beginning;
  return http_exchange(base.get(), bufferevent_socket_new(base.get(), -1, BEV_OPT_CLOSE_ON_FREE),
                       target, request, std::chrono::seconds(60));
}

const std::string kHead = "HTTP/1.1 200 OK\r\n";
const std::string kChunked = kHead + "Transfer-Encoding: chunked\r\n\r\n";

std::string with_length(std::size_t length, const std::string& body) {
  return kHead + "Content-Length: " + std::to_string(length) + "\r\n\r\n" + body;
}
// 70,000 bytes.
const std::string kPart = "11170\r\n" + std::string(70'000, 'x') + "\r\n";

void expect_too_long(const Result<std::optional<HttpsReply>>& reply) {
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, Errc::kExhausted);
}

void expect_beginning(const Result<std::optional<HttpsReply>>& reply, std::size_t bytes,
                      const std::string& length) {
  ASSERT_TRUE(reply.has_value() && *reply);
  EXPECT_TRUE((*reply)->cut);
  EXPECT_EQ((*reply)->status, 200);
  EXPECT_EQ((*reply)->body, std::string(bytes, 'x'));
  EXPECT_EQ((*reply)->length, length);
}

TEST(HttpExchange, AWholeAnswerIsNotCut) {
  for (const std::string& answer : {with_length(3, "xyz"), kChunked + "3\r\nxyz\r\n0\r\n\r\n"}) {
    const auto reply = ask(answer, true);
    ASSERT_TRUE(reply.has_value() && *reply);
    EXPECT_FALSE((*reply)->cut);
    EXPECT_EQ((*reply)->status, 200);
    EXPECT_EQ((*reply)->body, "xyz");
  }
}

TEST(HttpExchange, AnAnswerBeyondTheLimitIsRefused) {
  expect_too_long(ask(with_length(100'001, ""), false));
  expect_too_long(ask(kChunked + kPart + kPart, false));
}

TEST(HttpExchange, AChunkBeyondTheLimitIsRefusedBeforeItComes) {
  expect_too_long(ask(kChunked + "186a1\r\n", false));
  expect_beginning(ask(kChunked + kPart + "2000001\r\n", true), 70'000, "");
}

TEST(HttpExchange, TheBeginningOfALongerAnswerIsGiven) {
  expect_beginning(ask(kChunked + kPart + kPart, true), 100'000, "");
  const auto reply = ask(with_length(200'000, std::string(200'000, 'x')), true);
  ASSERT_TRUE(reply.has_value() && *reply);
  EXPECT_TRUE((*reply)->cut);
  EXPECT_GE((*reply)->body.size(), kHttpsBeginningBytes);
  EXPECT_EQ((*reply)->length, "200000");
}

TEST(HttpExchange, AnAnnouncedLengthBeyondWhatIsHeldIsKnownWithTheStatus) {
  expect_beginning(ask(with_length(kHttpsBufferedBytesMax + 1, ""), true), 0, "33554433");
}

}  // namespace
}  // namespace fairlead::event
