// Goal: a client that sends its request at once is answered, however many others are slow. Method:
// many slow clients that hold more connections than the server has room for. The server's time
// limits are an hour, so only its choice of connections to end can help.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <list>
#include <optional>
#include <string>

#include "event/http/http_server.h"
#include "unit/http/raw_client.h"
#include "unit/http/running_server.h"

namespace fairlead::event {
namespace {

using testing::EndsWith;
using testing::StartsWith;

constexpr const char* kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
constexpr const char* kHalf = "GET / HTTP/1.1\r\nX-Slow: ";
constexpr int kCrowd = 1000;
constexpr int kProbes = 60;
constexpr Duration kNever = std::chrono::hours(1);

HttpLimits patient() {
  HttpLimits limits;
  limits.request_max = limits.idle_max = limits.connection_max = kNever;
  return limits;
}

class HttpCrowd : public testing::TestWithParam<const char*> {
 protected:
  HttpCrowd() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }

  void start(const HttpLimits& limits, const HttpServer::Handler& handler = always("fine")) {
    const std::string where = GetParam();
    running_.emplace(handler, limits);
    endpoint_.emplace(
        running_->serve(where.starts_with('@') ? where + std::to_string(::getpid()) : where));
  }

  void expect_probe_is_answered() { EXPECT_THAT(answer_to(*endpoint_, kGet), EndsWith("fine")); }
  std::uint64_t refused(HttpRefusal reason) const { return running_->refused(reason); }

  std::optional<RunningServer> running_;
  std::optional<HttpEndpoint> endpoint_;
};

INSTANTIATE_TEST_SUITE_P(Sockets, HttpCrowd, testing::Values("127.0.0.1:0", "@fairlead-crowd-"),
                         [](const auto& sockets) { return sockets.index == 0 ? "Tcp" : "Unix"; });

TEST_P(HttpCrowd, ProbesAreAnsweredBesideSlowClients) {
  start(patient());
  std::list<RawClient> crowd;
  for (int probe = 0; probe < kProbes; ++probe) {
    for (int i = 0; i < kCrowd / kProbes + 1; ++i) crowd.emplace_back(*endpoint_).send(kHalf);
    expect_probe_is_answered();
  }
  EXPECT_GT(refused(HttpRefusal::kCrowded), 0U);
}

TEST_P(HttpCrowd, ProbesAreAnsweredBesideSilentClients) {
  start(patient());
  std::list<RawClient> crowd;
  for (int i = 0; i < kCrowd; ++i) crowd.emplace_back(*endpoint_);
  for (int probe = 0; probe < kProbes; ++probe) expect_probe_is_answered();
}

TEST_P(HttpCrowd, ProbesAreAnsweredBesideClientsThatDoNotRead) {
  HttpLimits limits = patient();
  limits.held_bytes_max = 1 << 20;
  start(limits, [](HttpExchange exchange) {
    const bool is_probe = exchange.request().path == "/";
    exchange.respond({.body = is_probe ? "fine" : std::string(300'000, 'x')});
  });
  // More than the table holds; each answer takes the server time.
  constexpr int kReaders = 300;
  std::list<RawClient> crowd;
  for (int i = 0; i < kReaders; ++i)
    crowd.emplace_back(*endpoint_).send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  for (int probe = 0; probe < kProbes; ++probe) expect_probe_is_answered();
  EXPECT_GT(refused(HttpRefusal::kMemory), 0U);
}

TEST_P(HttpCrowd, RequestsThatComeInHoldLimitedMemory) {
  HttpLimits limits = patient();
  limits.body_bytes_max = 1 << 20;
  limits.held_bytes_max = 1 << 20;
  start(limits);
  std::list<RawClient> crowd;
  const std::string part =
      "POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + std::string(100'000, 'x');
  for (int i = 0; i < 50; ++i) crowd.emplace_back(*endpoint_).send(part);
  expect_probe_is_answered();
  // All slow clients except about the last ten are ended, and notice it without a time limit.
  EXPECT_EQ(crowd.front().read_to_end(), "");
  EXPECT_GT(refused(HttpRefusal::kMemory), 0U);
}

int highest_descriptor() {
  int highest = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    highest = std::max(highest, std::stoi(entry.path().filename().string()));
  return highest;
}

// Goal: a probe is answered although slow clients hold all descriptors. Method: sockets are created
// first, then the limit is lowered to the open ones, so that accept(2) finds none for them.
TEST_P(HttpCrowd, ProbesAreAnsweredWhenDescriptorsAreUsedUp) {
  HttpLimits limits = patient();
  limits.connections_max = 64;
  start(limits);
  std::list<RawClient> crowd;
  for (int i = 0; i < 100; ++i) crowd.emplace_back(*endpoint_).send(kHalf);
  expect_probe_is_answered();
  // UBSan needs descriptors at the first check of a type, so some clients were ended before.
  const std::uint64_t ended = refused(HttpRefusal::kCrowded);
  ASSERT_GT(ended, 0U);
  std::array<int, 20> sockets{};
  for (int& fd : sockets)
    fd = ::socket(endpoint_->data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // The numbers that are free below the highest that is in use.
  std::list<FileDescriptor> fillers;
  const int highest = highest_descriptor();
  do fillers.emplace_back(::dup(sockets[0]));
  while (fillers.back().get() < highest);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit lowered = before;
  lowered.rlim_cur = static_cast<rlim_t>(fillers.back().get()) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
  for (const int fd : sockets) crowd.emplace_back(fd, *endpoint_);
  RawClient& probe = crowd.back();
  EXPECT_TRUE(probe.send(kGet));
  EXPECT_THAT(probe.read_to_end(), EndsWith("fine"));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_GT(refused(HttpRefusal::kCrowded), ended);
  // Not all were.
  EXPECT_LT(refused(HttpRefusal::kCrowded), ended + limits.connections_max);
}

TEST_P(HttpCrowd, OneAnswerAloneMayExceedTheLimitOfMemory) {
  HttpLimits limits = patient();
  limits.held_bytes_max = 1000;
  const std::string body(4 << 20, 'b');
  start(limits, always(body));
  EXPECT_TRUE(answer_to(*endpoint_, kGet).ends_with(body.substr(0, 1000)));
  EXPECT_EQ(refused(HttpRefusal::kMemory), 0U);
}

TEST_P(HttpCrowd, ClientThatSendsOnBehindItsRequestIsEnded) {
  start(patient(), always(std::string(16 << 20, 'b')));
  RawClient client(*endpoint_);
  ASSERT_TRUE(client.send(kGet));
  // Blocks while the server does not read, and fails once it has closed; the test's time limit
  // detects a server that never does.
  const std::string chunk(64 * 1024, 'x');
  while (client.send(chunk)) {
  }
  EXPECT_EQ(refused(HttpRefusal::kBadRequest), 1U);
}

TEST_P(HttpCrowd, RequestThatNeverEndsIsRefusedInTime) {
  HttpLimits limits = patient();
  limits.request_max = std::chrono::milliseconds(50);
  start(limits);
  EXPECT_EQ(answer_to(*endpoint_, kHalf), "");
  EXPECT_EQ(refused(HttpRefusal::kSlowRequest), 1U);
}

// A client at its own address within 127.0.0.0/8.
FileDescriptor connect_from(const char* source, const HttpEndpoint& to) {
  FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress from = *SocketAddress::parse(std::string(source) + ":0");
  EXPECT_EQ(::bind(fd.get(), from.data(), from.size()), 0);
  EXPECT_EQ(::connect(fd.get(), to.data(), to.size()), 0);
  return fd;
}

TEST(HttpSources, CrowdOfOneSourceDisplacesItselfAndNotOthers) {
  HttpLimits limits = patient();
  limits.connections_max = 16;
  RunningServer running(always("fine"), limits);
  const HttpEndpoint endpoint = running.serve("127.0.0.1:0");
  const FileDescriptor slow_but_honest = connect_from("127.0.0.2", endpoint);
  std::list<FileDescriptor> crowd;
  for (int i = 0; i < 200; ++i) crowd.push_back(connect_from("127.0.0.3", endpoint));
  EXPECT_THAT(answer_to(endpoint, kGet), EndsWith("fine"));
  ASSERT_GT(::send(slow_but_honest.get(), kGet, std::string_view(kGet).size(), MSG_NOSIGNAL), 0);
  std::array<char, 512> answer{};
  const ssize_t count = ::recv(slow_but_honest.get(), answer.data(), answer.size(), 0);
  ASSERT_GT(count, 0);
  EXPECT_THAT(std::string(answer.data(), 15), StartsWith("HTTP/1.1 200"));
}

TEST(HttpSources, SourceThatOpensTooFastIsRefusedUnderPressureOnly) {
  HttpLimits limits = patient();
  limits.connections_max = 40;
  limits.connections_per_second = 1;
  RunningServer running(always("fine"), limits);
  const HttpEndpoint endpoint = running.serve("127.0.0.1:0");
  for (int i = 0; i < 30; ++i) EXPECT_THAT(answer_to(endpoint, kGet), EndsWith("fine"));
  EXPECT_EQ(running.refused(HttpRefusal::kRate), 0U);
  std::list<FileDescriptor> crowd;
  for (int i = 0; i < 30; ++i) crowd.push_back(connect_from("127.0.0.3", endpoint));
  (void)answer_to(endpoint, kGet);
  EXPECT_GT(running.refused(HttpRefusal::kRate), 0U);
}

TEST(HttpSources, CallerOverAUnixSocketIsKnownByItsUser) {
  HttpRequest seen;
  RunningServer running([&seen](HttpExchange exchange) {
    seen = exchange.request();
    exchange.respond({});
  });
  answer_to(running.serve("@fairlead-http-user-" + std::to_string(::getpid())), kGet);
  running.stop();
  EXPECT_EQ(seen.peer_uid, ::geteuid());
  EXPECT_EQ(seen.source, "uid " + std::to_string(::geteuid()));
  EXPECT_FALSE(seen.over_tcp);
}

}  // namespace
}  // namespace fairlead::event
