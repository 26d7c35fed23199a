// Goal: the client ends in time with an answer or an error, whatever listens there. Method: a
// socket that sends given bytes, and closes.
#include "ctl/http_client.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "unit/http/answering_server.h"

namespace fairlead::ctl {
namespace {

using event::AnsweringServer;

Result<event::HttpReply> ask(const event::HttpEndpoint& endpoint,
                             Duration timeout = std::chrono::seconds(120)) {
  return http_request(endpoint, "GET", "/x?y=1", timeout);
}

TEST(HttpClient, TakesStatusAndBody) {
  AnsweringServer server("HTTP/1.1 202 Fine\r\ncontent-LENGTH:   2\r\nX: y\r\n\r\nok and more");
  const auto reply = ask(server.endpoint());
  server.stop();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 202);
  EXPECT_EQ(reply->body, "ok");
  EXPECT_TRUE(server.request().starts_with("GET /x?y=1 HTTP/1.1\r\nHost: "));
}

TEST(HttpClient, BodyWithoutLengthEndsWithTheConnection) {
  const auto reply = ask(AnsweringServer("HTTP/1.0 200 OK\r\n\r\nall of it").endpoint());
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->body, "all of it");
}

TEST(HttpClient, WhatIsNoWholeAnswerIsAnError) {
  for (const auto& [answer, code] : std::initializer_list<std::pair<const char*, Errc>>{
           {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", Errc::kTruncated},
           {"SSH-2.0-OpenSSH\r\n\r\n", Errc::kMalformed},
           {"HTTP/1.1\r\n\r\n", Errc::kMalformed},
           {"HTTP/1.1 abc x\r\n\r\n", Errc::kMalformed},
           {"HTTP/1.1 200 OK\r\n", Errc::kMalformed},
           {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", Errc::kMalformed},
           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Errc::kUnsupported},
           {"", Errc::kPeerGone}}) {
    const auto reply = ask(AnsweringServer(answer).endpoint());
    ASSERT_FALSE(reply) << answer;
    EXPECT_EQ(reply.error().code, code) << answer;
  }
}

TEST(HttpClient, GivesUpInTime) {
  const AnsweringServer server("HTTP/1.1 200 OK\r\n", AnsweringServer::After::kWaitForClient);
  const auto reply = ask(server.endpoint(), std::chrono::milliseconds(50));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::kTimedOut);
}

TEST(HttpClient, NobodyThereIsAnErrorOfConnect) {
  const auto endpoint =
      event::HttpEndpoint::parse("@fairlead-nobody-" + std::to_string(::getpid()));
  const auto reply = ask(*endpoint);
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
