// Every route through a real socket, against a canned proxy; and workers that answer late, twice,
// wrongly or never, which do not affect the answers of the others.
#include "admin/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <list>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "admin/gather.h"
#include "base/log.h"
#include "ctl/http_client.h"
#include "golden.h"
#include "unit/admin/canned.h"
#include "unit/http/raw_client.h"

namespace fairlead::admin {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// An admin server on its own abstract socket and on a TCP port, with a simulated proxy behind it.
class AdminServerTest : public testing::Test {
 protected:
  void SetUp() override { start(std::chrono::seconds(10)); }

  void start(Duration snapshot_timeout) { start(snapshot_timeout, proxy_.sources()); }

  void start(Duration snapshot_timeout, AdminSources sources) {
    server_.reset();
    server_ = std::move(*AdminServer::create({.snapshot_timeout = snapshot_timeout, .http = {}},
                                             std::move(sources)));
    endpoint_.emplace(*event::HttpEndpoint::parse(socket_));
    ASSERT_TRUE(server_->listen(*endpoint_));
    auto tcp = server_->listen(*event::HttpEndpoint::parse("127.0.0.1:0"));
    ASSERT_TRUE(tcp);
    tcp_.emplace(*tcp);
    ASSERT_TRUE(server_->start());
  }

  event::HttpReply ask(const char* method, const std::string& target) {
    return ask(*endpoint_, method, target);
  }
  event::HttpReply ask(const event::HttpEndpoint& endpoint, const char* method,
                       const std::string& target) {
    auto reply = ctl::http_request(endpoint, method, target, std::chrono::seconds(120));
    EXPECT_TRUE(reply) << target << ": " << (reply ? "" : to_string(reply.error()));
    return reply ? *reply : event::HttpReply();
  }
  event::HttpReply get(const std::string& target) { return ask("GET", target); }
  json get_json(const std::string& target) { return json::parse(get(target).body); }

  std::string error_of(const event::HttpReply& reply) {
    return json::parse(reply.body).at("error").get<std::string>();
  }

  CannedProxy proxy_;
  std::unique_ptr<AdminServer> server_;
  const std::string socket_ = "@fairlead-admin-test-" + std::to_string(::getpid());
  std::optional<event::HttpEndpoint> endpoint_;  // the socket
  std::optional<event::HttpEndpoint> tcp_;
};

TEST_F(AdminServerTest, EveryRouteOfItsListAnswers) {
  const json list = get_json("/");
  EXPECT_EQ(list["build"]["version"], "1.2.3");
  ASSERT_GE(list["routes"].size(), 16U);
  for (const json& route : list["routes"]) {
    if (route["method"] != "GET") continue;
    EXPECT_EQ(get(route["path"].get<std::string>()).status, 200) << route;
  }
}

TEST_F(AdminServerTest, UnknownPathIsNotFound) {
  for (const char* path : {"/nothing", "/metrics/", "/a/b", "/METRICS", "/%6detrics"}) {
    const event::HttpReply reply = get(path);
    EXPECT_EQ(reply.status, 404) << path;
    EXPECT_FALSE(error_of(reply).empty());
  }
}

TEST_F(AdminServerTest, WrongMethodNamesTheRightOnes) {
  EXPECT_THAT(event::answer_to(*endpoint_, "DELETE /logging HTTP/1.1\r\nHost: h\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("\r\nAllow: GET, POST\r\n")));
  EXPECT_EQ(ask("POST", "/metrics").status, 405);
  EXPECT_EQ(get("/drain").status, 405);
  EXPECT_FALSE(proxy_.draining);
}

TEST_F(AdminServerTest, UnknownRepeatedOrShapelessParametersAreRefused) {
  EXPECT_THAT(error_of(get("/connections?limit=5&colour=red")), HasSubstr("\"colour\""));
  for (const char* target :
       {"/connections?limit=5&colour=red", "/livez?x=1", "/connections?limit=5&limit=6",
        "/connections?limit", "/connections?=5", "/stats?format=xml", "/fallbacks?all=yes",
        "/connections?limit=0", "/connections?limit=-1", "/connections?limit=10001",
        "/connections?limit=many", "/connections?limit="})
    EXPECT_EQ(get(target).status, 400) << target;
}

TEST_F(AdminServerTest, ProbesTellAliveAndReady) {
  proxy_.not_ready = {"worker 1 does not listen yet"};
  start(std::chrono::seconds(10));
  EXPECT_EQ(get("/livez").status, 200);
  EXPECT_EQ(get("/healthz").status, 200);
  const event::HttpReply reply = get("/readyz");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(json::parse(reply.body)["reasons"][0], "worker 1 does not listen yet");
}

TEST_F(AdminServerTest, ReadinessIsALatchAlsoWhileDraining) {
  EXPECT_EQ(get("/readyz").status, 200);
  proxy_.not_ready = {"not any more"};
  proxy_.draining = true;
  const event::HttpReply reply = get("/readyz");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(json::parse(reply.body)["draining"], true);
}

TEST_F(AdminServerTest, OrdersToDrainAndForPortsReachTheProxy) {
  EXPECT_EQ(ask("POST", "/drain").status, 202);
  EXPECT_TRUE(proxy_.draining);
  EXPECT_EQ(ask("POST", "/ports?device=shm0&port=2&state=down").status, 202);
  EXPECT_EQ(proxy_.port_order, "shm0 2 down");
  EXPECT_EQ(ask("POST", "/ports?device=shm0&port=255&state=up").status, 202);
  EXPECT_EQ(proxy_.port_order, "shm0 255 up");
  for (const char* wrong : {"port=2&state=down", "device=shm0&state=down", "device=shm0&port=2",
                            "device=shm0&port=0&state=up", "device=shm0&port=256&state=up",
                            "device=shm0&port=2x&state=up", "device=shm0&port=2&state=sideways"})
    EXPECT_EQ(ask("POST", std::string("/ports?") + wrong).status, 400) << wrong;
  EXPECT_EQ(proxy_.port_order, "shm0 255 up");
}

TEST_F(AdminServerTest, LogLevelIsShownAndSet) {
  const LogLevel before = log_level();
  EXPECT_EQ(ask("POST", "/logging?level=error").status, 200);
  EXPECT_EQ(log_level(), LogLevel::kError);
  EXPECT_EQ(get_json("/logging")["level"], "error");
  EXPECT_EQ(ask("POST", "/logging?level=loud").status, 400);
  EXPECT_EQ(ask("POST", "/logging").status, 400);
  EXPECT_EQ(get("/logging?level=debug").status, 400);
  EXPECT_EQ(log_level(), LogLevel::kError);
  log_set_level(before);
}

TEST_F(AdminServerTest, TcpServesProbesAndMetricsOnly) {
  for (const char* path : {"/metrics", "/livez", "/readyz"})
    EXPECT_EQ(ask(*tcp_, "GET", path).status, 200) << path;
  EXPECT_EQ(ask(*tcp_, "GET", "/nothing").status, 403);
  const json list = get_json("/");
  for (const json& route : list["routes"]) {
    const auto path = route["path"].get<std::string>();
    if (path == "/metrics" || path == "/livez" || path == "/readyz") continue;
    const event::HttpReply reply = ask(*tcp_, route["method"].get<std::string>().c_str(), path);
    EXPECT_EQ(reply.status, 403) << route;
    EXPECT_THAT(error_of(reply), HasSubstr(socket_));
  }
  EXPECT_FALSE(proxy_.draining);
  EXPECT_EQ(proxy_.port_order, "");
  EXPECT_THAT(get("/metrics").body,
              HasSubstr("fairlead_http_refused_total{reason=\"forbidden\"} 17\n"));
}

TEST_F(AdminServerTest, SocketIsForRootAndTheProxysUserOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can connect as another user";
  constexpr uid_t kApplication = 65534;
  std::string answer[2];
  std::thread([&] {
    // The raw system call changes this thread alone.
    ASSERT_EQ(::syscall(SYS_setresuid, -1, kApplication, -1), 0);
    answer[0] = event::answer_to(*endpoint_, "POST /drain HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
    answer[1] = event::answer_to(*endpoint_, "GET /linkgroups HTTP/1.1\r\n\r\n");
  }).join();
  for (const std::string& text : answer)
    EXPECT_THAT(text, AllOf(StartsWith("HTTP/1.1 403 "), HasSubstr("uid 65534")));
  EXPECT_FALSE(proxy_.draining);
  EXPECT_EQ(get("/linkgroups").status, 200);
}

TEST_F(AdminServerTest, CrowdOfScrapersAsksTheWorkersSeldomAndIsAnswered) {
  std::atomic<int> questions = 0;
  std::mutex mutex;
  std::vector<SnapshotReply> waiting;
  AdminSources sources = proxy_.sources();
  sources.snapshot = [&](const SnapshotRequest&, const SnapshotReply& reply) {
    ++questions;
    const std::lock_guard lock(mutex);
    waiting.push_back(reply);
  };
  start(std::chrono::seconds(20), std::move(sources));
  std::list<event::RawClient> scrapers;
  constexpr int kScrapers = 100;
  for (int i = 0; i < kScrapers; ++i)
    scrapers.emplace_back(*tcp_).send("GET /metrics HTTP/1.1\r\n\r\n");
  std::thread workers([&] {
    for (int answered = 0; answered < kScrapers;) {
      std::vector<SnapshotReply> asked;
      {
        // Held briefly: the server's thread waits for it, and a mutex is not fair.
        const std::lock_guard lock(mutex);
        asked.swap(waiting);
      }
      for (const SnapshotReply& reply : asked)
        for (unsigned worker = 0; worker < 2; ++worker) reply(canned_snapshot(worker));
      // Requests that were sent are answered with the next query at the latest.
      answered = static_cast<int>(std::count_if(scrapers.begin(), scrapers.end(),
                                                [](auto& one) { return one.readable_within(1); }));
    }
  });
  workers.join();
  for (event::RawClient& scraper : scrapers)
    EXPECT_TRUE(scraper.read_to_end().starts_with("HTTP/1.1 200 "));
  EXPECT_LT(questions.load(), kScrapers / 2);
  server_->stop();
}

TEST_F(AdminServerTest, StatsSumTheWorkersAndTellThemApart) {
  proxy_.stats[1]->cdc_sent.add(7);
  const json stats = get_json("/stats?format=json");
  EXPECT_EQ(stats["total"]["connections"]["outbound"]["smcr"]["total"], 10);
  EXPECT_EQ(stats["total"]["cdc"]["sent"], 7);
  EXPECT_EQ(stats["workers"].size(), 2U);
  EXPECT_EQ(stats["workers"][0]["cdc"]["sent"], 0);
  EXPECT_EQ(stats["total"]["fallbacks"], 10);
  EXPECT_THAT(get("/stats").body, HasSubstr("\ntotal.cdc.sent 7\n"));
}

TEST_F(AdminServerTest, ConnectionsAreLimitedAndFiltered) {
  const json all = get_json("/connections");
  ASSERT_EQ(all["connections"].size(), 2U);
  EXPECT_EQ(all["connections"][0]["id"], "c-1");
  EXPECT_EQ(all["connections"][1]["reason_code"], "0x03030002");
  EXPECT_EQ(all["open"], 2);
  EXPECT_EQ(proxy_.asked.connections_max, 1000U);
  EXPECT_EQ(get_json("/connections?limit=1")["connections"].size(), 1U);
  EXPECT_EQ(proxy_.asked.connections_max, 1U);
  EXPECT_EQ(get_json("/connections?state=handshake")["connections"].size(), 0U);
  EXPECT_EQ(get_json("/connections?state=active&limit=1")["connections"].size(), 1U);
  EXPECT_GT(proxy_.asked.connections_max, 1000U);
}

TEST_F(AdminServerTest, LinksComeWithTheirGroupsAndAloneAndADeviceOfAllWorkersIsOneRow) {
  const json groups = get_json("/linkgroups");
  ASSERT_EQ(groups["link_groups"].size(), 1U);
  EXPECT_EQ(groups["link_groups"][0]["links"][0]["rnic"], "shm0");
  const json links = get_json("/links");
  ASSERT_EQ(links["links"].size(), 1U);
  EXPECT_EQ(links["links"][0]["worker"], 0);
  const json devices = get_json("/devices")["devices"];
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0]["workers"], (json{0, 1}));
}

TEST_F(AdminServerTest, FallbacksComeWithSentenceAndHint) {
  const json some = get_json("/fallbacks")["fallbacks"];
  ASSERT_EQ(some.size(), 2U);
  EXPECT_EQ(some[0]["reason"], "no_rdma_device");
  EXPECT_EQ(some[0]["count"], 6);
  EXPECT_EQ(some[0]["side"], "peer");
  EXPECT_FALSE(some[0]["hint"].get<std::string>().empty());
  EXPECT_EQ(get_json("/fallbacks?all=true")["fallbacks"].size(), fallback_reason_count() * 4);
}

TEST_F(AdminServerTest, WhyFindsAPeerByAddressAndPortNewestFirst) {
  const auto ids = [this](const std::string& target) {
    std::vector<std::string> found;
    const json reply = get_json(target);
    for (const json& row : reply["decisions"]) found.push_back(row["id"]);
    return found;
  };
  EXPECT_EQ(ids("/why"), (std::vector<std::string>{"c-2", "c-9", "c-0"}));
  EXPECT_EQ(ids("/why?peer=10.1.2.7:9090"), (std::vector<std::string>{"c-9"}));
  EXPECT_EQ(ids("/why?peer=10.1.2.7"), (std::vector<std::string>{"c-2", "c-9"}));
  EXPECT_EQ(ids("/why?peer=fd00::7"), (std::vector<std::string>{"c-0"}));
  EXPECT_EQ(ids("/why?peer=10.1.2"), (std::vector<std::string>{}));
  EXPECT_EQ(get_json("/why?peer=10.1.2.7:9090")["decisions"][0]["sentence"],
            "no RDMA device reaches the peer");
}

TEST_F(AdminServerTest, DoctorAddsTheFactsOfThisProcessAndConfigIsPlainYaml) {
  const json checks = get_json("/doctor")["checks"];
  EXPECT_EQ(checks.back()["name"], "option_program");
  EXPECT_EQ(checks.back()["status"], "ok");
  EXPECT_GT(checks.size(), 5U);
  EXPECT_EQ(get("/config").body, "smc:\n  enabled: true\n");
}

TEST_F(AdminServerTest, ProxyWithoutOptionalPartsStillAnswers) {
  start(std::chrono::seconds(10), AdminSources());
  for (const char* path : {"/metrics", "/readyz", "/stats", "/connections", "/doctor", "/why"})
    EXPECT_EQ(get(path).status, 200) << path;
  EXPECT_EQ(get("/config").status, 404);
  EXPECT_EQ(ask("POST", "/drain").status, 404);
  EXPECT_EQ(ask("POST", "/ports?device=shm0&port=1&state=up").status, 404);
}

TEST_F(AdminServerTest, OnlyConnectionsAndWhyMakeWorkersFillLongLists) {
  for (const char* path : {"/metrics", "/linkgroups", "/links", "/devices", "/doctor"}) {
    get(path);
    EXPECT_EQ(proxy_.asked.connections_max, 0U) << path;
    EXPECT_FALSE(proxy_.asked.decisions) << path;
  }
  get("/why");
  EXPECT_TRUE(proxy_.asked.decisions);
}

TEST_F(AdminServerTest, SilentWorkerIsNamedAndTheOthersAreShown) {
  proxy_.silent_worker = 1;
  start(std::chrono::milliseconds(20));
  const json connections = get_json("/connections");
  EXPECT_EQ(connections["silent_workers"], (json{1}));
  EXPECT_EQ(connections["connections"].size(), 1U);
  EXPECT_THAT(get("/metrics").body,
              AllOf(HasSubstr("fairlead_workers{state=\"silent\"} 1\n"),
                    HasSubstr("direction=\"outbound\",transport=\"smcr\"} 10\n")));
  const json doctor = get_json("/doctor");
  EXPECT_EQ(std::count_if(doctor["checks"].begin(), doctor["checks"].end(),
                          [](const json& check) {
                            return check["name"] == "workers" && check["status"] == "fail";
                          }),
            1);
}

TEST_F(AdminServerTest, AnswersOfWorkersMayComeFromAnyThreadAndTooLate) {
  AdminSources sources = proxy_.sources();
  std::promise<SnapshotReply> late;
  sources.snapshot = [&late](const SnapshotRequest&, const SnapshotReply& reply) {
    std::thread([reply] { reply(canned_snapshot(0)); }).join();
    late.set_value(reply);
  };
  start(std::chrono::milliseconds(200), std::move(sources));
  EXPECT_EQ(get_json("/linkgroups")["silent_workers"], (json{1}));
  const SnapshotReply reply = late.get_future().get();
  reply(canned_snapshot(1));
  EXPECT_EQ(get("/livez").status, 200);
  server_->stop();
  reply(canned_snapshot(1));
}

TEST_F(AdminServerTest, AnswersThatNameAWorkerTwiceOrWronglyCountOnce) {
  AdminSources sources = proxy_.sources();
  sources.snapshot = [](const SnapshotRequest&, const SnapshotReply& reply) {
    for (unsigned worker : {0U, 0U, 7U}) reply(canned_snapshot(worker));
  };
  start(std::chrono::milliseconds(20), std::move(sources));
  const json reply = get_json("/connections");
  EXPECT_EQ(reply["connections"].size(), 1U);
  EXPECT_EQ(reply["silent_workers"], (json{1}));
}

TEST_F(AdminServerTest, TooManyWaitingRequestsAreTurnedAway) {
  AdminSources sources = proxy_.sources();
  std::promise<void> all_wait;
  std::size_t asked = 0;
  sources.snapshot = [&](const SnapshotRequest&, const SnapshotReply&) {
    if (++asked == SnapshotGather::kPendingMax) all_wait.set_value();
  };
  start(std::chrono::minutes(5), std::move(sources));
  std::vector<event::RawClient> waiting;
  for (std::size_t count = 0; count < SnapshotGather::kPendingMax; ++count) {
    waiting.emplace_back(*endpoint_);
    waiting.back().send("GET /links HTTP/1.1\r\nHost: h\r\n\r\n");
  }
  all_wait.get_future().wait();
  EXPECT_EQ(get("/links").status, 503);
  EXPECT_EQ(get("/livez").status, 200);
}

// The paths of all values in an answer, by the path of the object that holds them and their type.
using Keys = std::map<std::string, std::set<std::string>>;

void add_keys(const json& value, const std::string& path, Keys& keys) {
  const bool is_array = value.is_array();
  for (const auto& [key, inner] : value.items()) {
    if (inner.is_structured())
      add_keys(inner, path + (is_array ? "[]" : "." + key), keys);
    else
      keys[path + " " + (inner.is_number() ? "number" : inner.type_name())].insert(is_array ? "[]"
                                                                                            : key);
  }
}

// Scripts that read the admin API find their keys.
TEST_F(AdminServerTest, KeysOfAnswers) {
  std::string text;
  for (const char* target :
       {"/stats?format=json", "/connections", "/linkgroups", "/links", "/devices", "/fallbacks",
        "/destinations", "/why?peer=10.1.2.7:8080", "/doctor", "/logging"}) {
    Keys keys;
    add_keys(get_json(target), "", keys);
    text += std::string("GET ") + target + "\n";
    for (const auto& [place, names] : keys) {
      text += place + ":";
      for (const std::string& name : names) text += " " + name;
      text += "\n";
    }
  }
  EXPECT_TRUE(golden::matches(text, FAIRLEAD_SOURCE_DIR "/tests/unit/admin/keys.txt"));
}

}  // namespace
}  // namespace fairlead::admin
