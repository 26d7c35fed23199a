// Goal: a misbehaving client gets an error or a close, and the next one is served. Method: raw
// sockets that send garbage, too much, too slowly, or nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <optional>

#include "event/http/http_server.h"
#include "lingering_socket.h"
#include "unit/http/raw_client.h"
#include "unit/http/running_server.h"

namespace fairlead::event {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

class HttpHostile : public testing::Test {
 protected:
  void start(const HttpLimits& limits = {}) { start(always("fine"), limits); }
  void start(HttpServer::Handler handler, const HttpLimits& limits) {
    running_.emplace(std::move(handler), limits);
    endpoint_.emplace(running_->serve("@fairlead-http-hostile-" + std::to_string(::getpid())));
  }

  std::string answer(std::string_view bytes) { return answer_to(*endpoint_, bytes); }

  // On a busy machine even an honest client may exceed the short limits of a test, but not always.
  void expect_alive() {
    bool alive = false;
    for (int tries = 0; !alive && tries < 100; ++tries) alive = answer(kGet).ends_with("fine");
    EXPECT_TRUE(alive);
  }

  std::optional<RunningServer> running_;
  std::optional<HttpEndpoint> endpoint_;
};

TEST_F(HttpHostile, GarbageIsABadRequestAndAnUnknownMethodNotImplemented) {
  start();
  EXPECT_THAT(answer("\x16\x03\x01garbage garbage\r\n\r\n"), HasSubstr(" 400 "));
  EXPECT_THAT(answer("GET\r\n\r\n"), HasSubstr(" 400 "));
  EXPECT_THAT(answer("GET / HTTP/9.9 extra words\r\n\r\n"), HasSubstr(" 400 "));
  EXPECT_THAT(answer("BREW / HTTP/1.1\r\n\r\n"), HasSubstr(" 501 "));
  expect_alive();
}

// The kernel would close them on the server's thread, for as long as the client wants.
TEST_F(HttpHostile, DescriptorsAreRefusedOnUnixSockets) {
  constexpr int kPassRights = 83;
  const FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int off = 0;
  if (::setsockopt(probe.get(), SOL_SOCKET, kPassRights, &off, sizeof off) != 0)
    GTEST_SKIP() << "SO_PASSRIGHTS needs Linux 6.16";
  start();
  RawClient client(*endpoint_);
  const int fd = client.fd();
  EXPECT_FALSE(send_with_descriptors(fd, std::as_bytes(std::span("GET", 3)), std::span(&fd, 1)));
  client.send(kGet);
  EXPECT_THAT(client.read_to_end(), EndsWith("fine"));
}

TEST_F(HttpHostile, HeadersAndBodiesBeyondTheirLimitsAreRefused) {
  start();
  for (const std::string& request :
       {"GET / HTTP/1.1\r\nX-Long: " + std::string(64 * 1024, 'x') + "\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + std::string(5000, 'x')}) {
    const std::string reply = answer(request);
    EXPECT_TRUE(reply.empty() || reply.starts_with("HTTP/1.1 4")) << reply;
    EXPECT_THAT(reply, Not(HasSubstr("fine")));
    expect_alive();
  }
}

TEST_F(HttpHostile, NonsenseInContentLengthIsRefused) {
  start();
  for (const std::string length : {"-1", "99999999999999999999", "1x", ""})
    EXPECT_THAT(answer("POST / HTTP/1.1\r\nContent-Length: " + length + "\r\n\r\nx"),
                Not(HasSubstr("fine")))
        << length;
  expect_alive();
}

TEST_F(HttpHostile, OnlyTheFirstOfSeveralRequestsIsAnswered) {
  start();
  const std::string reply = answer(std::string(kGet) + kGet + kGet);
  EXPECT_EQ(reply.find("fine"), reply.rfind("fine"));
}

TEST_F(HttpHostile, SilentClientIsHungUpOn) {
  start({.idle_max = std::chrono::milliseconds(50)});
  EXPECT_EQ(answer(""), "");
  expect_alive();
}

TEST_F(HttpHostile, ClientThatTricklesIsHungUpOn) {
  start({.request_max = std::chrono::milliseconds(100),
         .idle_max = std::chrono::seconds(60),
         .connection_max = std::chrono::seconds(60)});
  RawClient client(*endpoint_);
  client.send("GET / HTTP/1.1\r\n");
  while (!client.readable_within(5))
    if (!client.send("X-More: 1\r\n")) break;
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(HttpHostile, ClientThatNeverReadsIsHungUpOn) {
  const std::string large(8 << 20, 'b');
  start(always(large),
        {.idle_max = std::chrono::seconds(60), .connection_max = std::chrono::milliseconds(100)});
  RawClient client(*endpoint_);
  client.send(kGet);
  // Waits for the server's close without reading: the writing side of the socket fails.
  pollfd waited{.fd = client.fd(), .events = 0, .revents = 0};
  EXPECT_GT(::poll(&waited, 1, 120'000), 0);
  EXPECT_LT(client.read_to_end().size(), large.size());
}

TEST_F(HttpHostile, ConnectionBeyondTheLimitEndsTheOldest) {
  start({.connections_max = 2,
         .request_max = std::chrono::hours(1),
         .idle_max = std::chrono::hours(1),
         .connection_max = std::chrono::hours(1)});
  RawClient first(*endpoint_);
  RawClient second(*endpoint_);
  RawClient third(*endpoint_);
  ASSERT_TRUE(third.send(kGet));
  EXPECT_THAT(third.read_to_end(), EndsWith("fine"));
  EXPECT_EQ(first.read_to_end(), "");
  ASSERT_TRUE(second.send(kGet));
  EXPECT_THAT(second.read_to_end(), EndsWith("fine"));
}

TEST_F(HttpHostile, ManyClientsThatVanishLeaveNothingBehind) {
  start({.connections_max = 4});
  for (int round = 0; round < 100; ++round) {
    RawClient client(*endpoint_);
    client.send("GET / HT");
  }
  expect_alive();
}

TEST_F(HttpHostile, ClientThatLeavesBeforeTheAnswerHarmsNothing) {
  std::optional<HttpExchange> kept;
  std::promise<void> has_come;
  std::promise<void> answered;
  start(
      [&](HttpExchange exchange) {
        if (exchange.request().path == "/second") return exchange.respond({.body = "fine"});
        kept.emplace(std::move(exchange));
        has_come.set_value();
      },
      {});
  {
    RawClient client(*endpoint_);
    client.send(kGet);
    has_come.get_future().wait();
  }
  running_->server().post([&] {
    kept->respond({.body = std::string(1 << 20, 'x')});
    kept.reset();
    answered.set_value();
  });
  answered.get_future().wait();
  EXPECT_THAT(answer("GET /second HTTP/1.1\r\n\r\n"), EndsWith("fine"));
  running_.reset();  // its thread uses what is declared here
}

}  // namespace
}  // namespace fairlead::event
