// The server with well-behaved clients, its own thread, and its addresses. http_hostile_test.cc has
// misbehaving clients.
#include "event/http/http_server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <optional>

#include "unit/http/raw_client.h"
#include "unit/http/running_server.h"

namespace fairlead::event {
namespace {

constexpr const char* kGet = "GET /a?x=1&y=two%20words HTTP/1.1\r\nHost: h\r\n\r\n";

HttpServer::Handler always(const std::string& body) {
  return [body](HttpExchange exchange) { exchange.respond({.body = body}); };
}

std::string abstract_name() { return "@fairlead-http-test-" + std::to_string(::getpid()); }

std::string socket_path() {
  return testing::TempDir() + "fairlead-http-" + std::to_string(::getpid()) + ".sock";
}

TEST(HttpServer, GivesTheHandlerTheRequestAndClosesBehindTheResponse) {
  HttpRequest seen;
  RunningServer running([&seen](HttpExchange exchange) {
    seen = exchange.request();
    exchange.respond({.status = 201, .body = "made\n", .headers = {{"X-Extra", "1"}}});
  });
  const HttpEndpoint endpoint = running.listen("127.0.0.1:0");
  EXPECT_NE(endpoint.tcp().port(), 0);
  running.start();
  RawClient client(endpoint);
  client.send(kGet);
  const std::string reply = client.read_to_end();
  running.stop();

  EXPECT_TRUE(reply.starts_with("HTTP/1.1 201 ")) << reply;
  EXPECT_NE(reply.find("\r\nX-Extra: 1\r\n"), std::string::npos) << reply;
  EXPECT_NE(reply.find("\r\nConnection: close\r\n"), std::string::npos) << reply;
  EXPECT_TRUE(reply.ends_with("\r\n\r\nmade\n")) << reply;
  EXPECT_EQ(seen.method, "GET");
  EXPECT_EQ(seen.path, "/a");
  EXPECT_TRUE(seen.over_tcp);
  EXPECT_EQ(seen.source, "127.0.0.1");
  EXPECT_FALSE(seen.peer_uid);
  ASSERT_EQ(seen.query.size(), 2U);
  EXPECT_EQ(seen.query[1], (std::pair<std::string, std::string>("y", "two words")));
}

TEST(HttpServer, ServesSeveralAddressesAtOnce) {
  RunningServer running(always("here"));
  const HttpEndpoint endpoints[] = {running.listen("127.0.0.1:0"), running.listen(abstract_name()),
                                    running.listen("unix:" + socket_path())};
  running.start();
  for (const HttpEndpoint& endpoint : endpoints) {
    RawClient client(endpoint);
    client.send(kGet);
    EXPECT_TRUE(client.read_to_end().ends_with("here")) << to_string(endpoint);
  }
}

TEST(HttpServer, TheUnspecifiedIPv6AddressIsThatOfBothFamilies) {
  RunningServer running(always("here"));
  const std::uint16_t port = running.listen("[::]:0").tcp().port();
  running.start();
  RawClient client(HttpEndpoint(SocketAddress(in_addr{htonl(INADDR_LOOPBACK)}, port)));
  client.send(kGet);
  EXPECT_TRUE(client.read_to_end().ends_with("here"));
}

TEST(HttpServer, SocketFileIsForItsOwnerOnlyAndGoesWithTheServer) {
  const std::string path = socket_path();
  {
    RunningServer running(always(""));
    running.listen("unix:" + path);
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(HttpServer, ReplacesASocketFileThatNobodyListensOn) {
  const std::string path = socket_path();
  const HttpEndpoint endpoint = *HttpEndpoint::parse("unix:" + path);
  {
    const FileDescriptor left_behind(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::bind(left_behind.get(), endpoint.data(), endpoint.size()), 0);
  }
  RunningServer running(always(""));
  EXPECT_TRUE(running.server().listen(endpoint));
}

TEST(HttpServer, LeavesASocketFileToTheServerThatListensOnIt) {
  RunningServer first(always(""));
  const HttpEndpoint endpoint = first.listen("unix:" + socket_path());
  RunningServer second(always(""));
  const auto refused = second.server().listen(endpoint);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().system, EADDRINUSE);
}

TEST(HttpServer, LeavesAFileThatIsNoSocketAlone) {
  const std::string path = socket_path();
  std::ofstream(path) << "not a socket";
  RunningServer running(always(""));
  EXPECT_FALSE(running.server().listen(*HttpEndpoint::parse(path)));
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove(path);
}

TEST(HttpServer, AnswersLaterWhenTheHandlerKeepsTheExchange) {
  std::optional<HttpExchange> kept;
  std::promise<void> has_come;
  RunningServer running([&](HttpExchange exchange) {
    kept.emplace(std::move(exchange));
    has_come.set_value();
  });
  const HttpEndpoint endpoint = running.listen("127.0.0.1:0");
  running.start();
  RawClient client(endpoint);
  client.send(kGet);
  has_come.get_future().wait();
  EXPECT_TRUE(running.server().post([&kept] {
    kept->respond({.body = "later"});
    kept.reset();
  }));
  EXPECT_TRUE(client.read_to_end().ends_with("later"));
}

TEST(HttpServer, DroppedExchangeIsAnInternalError) {
  RunningServer running([](HttpExchange) {});
  const HttpEndpoint endpoint = running.listen("127.0.0.1:0");
  running.start();
  RawClient client(endpoint);
  client.send(kGet);
  EXPECT_TRUE(client.read_to_end().starts_with("HTTP/1.1 500 "));
}

TEST(HttpServer, DeliversAResponseLargerThanAnySocketBuffer) {
  const std::string body(16 << 20, 'b');
  RunningServer running(always(body));
  const HttpEndpoint endpoint = running.listen(abstract_name());
  running.start();
  RawClient client(endpoint);
  client.send(kGet);
  const std::string reply = client.read_to_end();
  EXPECT_GT(reply.size(), body.size());
  EXPECT_TRUE(reply.ends_with(body.substr(0, 1000)));
}

TEST(HttpServer, RunsPostedTasksInOrderOnItsOwnThread) {
  RunningServer running(always(""));
  std::vector<int> order;
  std::promise<std::thread::id> done;
  running.server().post([&order] { order.push_back(1); });
  running.server().post([&order] { order.push_back(2); });
  running.server().post([&done] { done.set_value(std::this_thread::get_id()); });
  running.start();
  EXPECT_NE(done.get_future().get(), std::this_thread::get_id());
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST(HttpServer, RefusesTasksBeyondTheLimitAndAfterTheEnd) {
  RunningServer running(always(""));
  for (std::size_t count = 0; count < HttpServer::kTasksMax; ++count)
    ASSERT_TRUE(running.server().post([] {}));
  EXPECT_FALSE(running.server().post([] {}));
  running.start();
  running.stop();
  EXPECT_FALSE(running.server().post([] {}));
}

TEST(HttpServer, TimerCallsOnceAndACancelledOneNever) {
  RunningServer running(always(""));
  std::promise<void> due;
  int cancelled_calls = 0;
  HttpTimer kept =
      running.server().call_after(std::chrono::milliseconds(2), [&due] { due.set_value(); });
  {
    const HttpTimer cancelled = running.server().call_after(
        std::chrono::milliseconds(1), [&cancelled_calls] { ++cancelled_calls; });
  }
  running.start();
  due.get_future().wait();
  running.stop();
  EXPECT_EQ(cancelled_calls, 0);
}

TEST(HttpServer, StopBeforeRunEndsRunAtOnce) {
  RunningServer running(always(""));
  running.server().stop();
  running.start();
  running.stop();
}

}  // namespace
}  // namespace fairlead::event
