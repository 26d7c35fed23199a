// Goal: the client ends in time with an answer or an error, whatever listens there. Method: a
// socket that sends given bytes, and closes.
#include "ctl/http_client.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

#include "base/linux/handle.h"

namespace fairlead::ctl {
namespace {

// Accepts one connection, reads the request's head, sends `answer`, and closes unless `keep_open`.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer, bool keep_open = false)
      : endpoint_(
            *event::HttpEndpoint::parse("@fairlead-one-answer-" + std::to_string(::getpid()))),
        listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    EXPECT_EQ(::bind(listener_.get(), endpoint_.data(), endpoint_.size()), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    thread_ = std::thread([this, answer = std::move(answer), keep_open] {
      const FileDescriptor peer(::accept(listener_.get(), nullptr, nullptr));
      std::array<char, 4096> chunk;
      while (request_.find("\r\n\r\n") == std::string::npos) {
        const ssize_t received = ::recv(peer.get(), chunk.data(), chunk.size(), 0);
        if (received <= 0) break;
        request_.append(chunk.data(), static_cast<std::size_t>(received));
      }
      (void)!::send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      // Until the client has closed.
      if (keep_open) (void)!::recv(peer.get(), chunk.data(), chunk.size(), 0);
    });
  }
  ~OneAnswer() {
    if (thread_.joinable()) thread_.join();
  }

  Result<event::HttpReply> ask(Duration timeout = std::chrono::seconds(120)) {
    auto reply = http_request(endpoint_, "GET", "/x?y=1", timeout);
    thread_.join();
    return reply;
  }
  const std::string& request() const { return request_; }

 private:
  event::HttpEndpoint endpoint_;
  FileDescriptor listener_;
  std::string request_;
  std::thread thread_;
};

TEST(HttpClient, TakesStatusAndBody) {
  OneAnswer server("HTTP/1.1 202 Fine\r\ncontent-LENGTH:   2\r\nX: y\r\n\r\nok and more");
  const auto reply = server.ask();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 202);
  EXPECT_EQ(reply->body, "ok");
  EXPECT_TRUE(server.request().starts_with("GET /x?y=1 HTTP/1.1\r\nHost: "));
}

TEST(HttpClient, BodyWithoutLengthEndsWithTheConnection) {
  const auto reply = OneAnswer("HTTP/1.0 200 OK\r\n\r\nall of it").ask();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->body, "all of it");
}

TEST(HttpClient, BodyThatEndsEarlyIsAnError) {
  const auto reply = OneAnswer("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort").ask();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kTruncated);
}

TEST(HttpClient, WhatIsNoHttpIsAnError) {
  for (const char* answer :
       {"SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1\r\n\r\n", "HTTP/1.1 abc x\r\n\r\n",
        "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"}) {
    const auto reply = OneAnswer(answer).ask();
    ASSERT_FALSE(reply) << answer;
    EXPECT_EQ(reply.error().code, Errc::kMalformed) << answer;
  }
}

TEST(HttpClient, ChunkedAnswersAreRefused) {
  const auto reply =
      OneAnswer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").ask();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kUnsupported);
}

TEST(HttpClient, ClosedWithoutAWordIsPeerGone) {
  const auto reply = OneAnswer("").ask();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kPeerGone);
}

TEST(HttpClient, GivesUpInTime) {
  const auto reply = OneAnswer("HTTP/1.1 200 OK\r\n", true).ask(std::chrono::milliseconds(50));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kTimedOut);
}

TEST(HttpClient, NobodyThereIsAnErrorOfConnect) {
  const auto endpoint =
      event::HttpEndpoint::parse("@fairlead-nobody-" + std::to_string(::getpid()));
  const auto reply = http_request(*endpoint, "GET", "/", std::chrono::seconds(120));
  ASSERT_FALSE(reply);
  EXPECT_STREQ(reply.error().what, "connect");
}

TEST(PercentEncoding, KeepsOnlyWhatNeedsNoQuoting) {
  EXPECT_EQ(percent_encoded("10.1.2.7:80"), "10.1.2.7:80");
  EXPECT_EQ(percent_encoded("[fd00::1]:80"), "%5Bfd00::1%5D:80");
  EXPECT_EQ(percent_encoded("a b&c=\xff"), "a%20b%26c%3D%FF");
}

}  // namespace
}  // namespace fairlead::ctl
