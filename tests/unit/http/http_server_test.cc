// The server with well-behaved clients, its own thread, and its addresses. http_hostile_test.cc has
// misbehaving clients.
#include "event/http/http_server.h"

#include <gmock/gmock.h>
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

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kGet = "GET /a?x=1&y=two%20words HTTP/1.1\r\nHost: h\r\n\r\n";

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
  const HttpEndpoint endpoint = running.serve("127.0.0.1:0");
  EXPECT_NE(endpoint.tcp().port(), 0);
  const std::string reply = answer_to(endpoint, kGet);
  running.stop();
  EXPECT_THAT(reply, AllOf(StartsWith("HTTP/1.1 201 "), HasSubstr("\r\nX-Extra: 1\r\n"),
                           HasSubstr("\r\nConnection: close\r\n"), EndsWith("\r\n\r\nmade\n")));
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
  for (const HttpEndpoint& endpoint : endpoints)
    EXPECT_THAT(answer_to(endpoint, kGet), EndsWith("here")) << to_string(endpoint);
}

TEST(HttpServer, TheUnspecifiedIPv6AddressIsThatOfBothFamilies) {
  RunningServer running(always("here"));
  const SocketAddress of_ipv4(in_addr{htonl(INADDR_LOOPBACK)},
                              running.serve("[::]:0").tcp().port());
  EXPECT_THAT(answer_to(HttpEndpoint(of_ipv4), kGet), EndsWith("here"));
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
  const HttpEndpoint endpoint = *HttpEndpoint::parse("unix:" + socket_path());
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
  RawClient client(running.serve("127.0.0.1:0"));
  client.send(kGet);
  has_come.get_future().wait();
  EXPECT_TRUE(running.server().post([&kept] {
    kept->respond({.body = "later"});
    kept.reset();
  }));
  EXPECT_THAT(client.read_to_end(), EndsWith("later"));
}

TEST(HttpServer, DroppedExchangeIsAnInternalError) {
  RunningServer running([](HttpExchange) {});
  EXPECT_THAT(answer_to(running.serve("127.0.0.1:0"), kGet), StartsWith("HTTP/1.1 500 "));
}

TEST(HttpServer, DeliversAResponseLargerThanAnySocketBuffer) {
  const std::string body(16 << 20, 'b');
  RunningServer running(always(body));
  const std::string reply = answer_to(running.serve(abstract_name()), kGet);
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
