// Goal: an answer is bounded however the server sends it, and its beginning is given on request.
// Method: a server of the test that sends given bytes, and no more until the client has gone.
#include "event/https/http_exchange.h"

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <gtest/gtest.h>

#include <string>

#include "event/http/http_server.h"
#include "unit/http/answering_server.h"

namespace fairlead::event {
namespace {

Result<std::optional<HttpsReply>> ask(const std::string& answer, bool accept_beginning) {
  const AnsweringServer server = AnsweringServer::over_tcp(answer);
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

void expect_too_long(const std::string& answer) {
  const auto reply = ask(answer, false);
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, Errc::kExhausted);
}

void expect_beginning(const std::string& answer, std::size_t bytes, const std::string& length) {
  const auto reply = ask(answer, true);
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
  expect_too_long(with_length(100'001, ""));
  expect_too_long(kChunked + kPart + kPart);
}

TEST(HttpExchange, AChunkBeyondTheLimitIsRefusedBeforeItComes) {
  expect_too_long(kChunked + "186a1\r\n");
  expect_beginning(kChunked + kPart + "2000001\r\n", 70'000, "");
}

TEST(HttpExchange, TheBeginningOfALongerAnswerIsGiven) {
  expect_beginning(kChunked + kPart + kPart, 100'000, "");
  const auto reply = ask(with_length(200'000, std::string(200'000, 'x')), true);
  ASSERT_TRUE(reply.has_value() && *reply);
  EXPECT_TRUE((*reply)->cut);
  EXPECT_GE((*reply)->body.size(), kHttpsBeginningBytes);
  EXPECT_EQ((*reply)->length, "200000");
}

TEST(HttpExchange, AnAnnouncedLengthBeyondWhatIsHeldIsKnownWithTheStatus) {
  expect_beginning(with_length(kHttpsBufferedBytesMax + 1, ""), 0, "33554433");
}

}  // namespace
}  // namespace fairlead::event
