// Every route through a real socket, against a canned proxy.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "unit/admin/admin_server_fixture.h"
#include "unit/http/raw_client.h"

namespace fairlead::admin {
namespace {

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
  event::RawClient client(*endpoint_);
  client.send("DELETE /logging HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string reply = client.read_to_end();
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 405 ")) << reply;
  EXPECT_NE(reply.find("\r\nAllow: GET, POST\r\n"), std::string::npos) << reply;
  EXPECT_EQ(ask("POST", "/metrics").status, 405);
  EXPECT_EQ(get("/drain").status, 405);
  EXPECT_FALSE(proxy_.draining);
}

TEST_F(AdminServerTest, UnknownParameterIsNamed) {
  const event::HttpReply reply = get("/connections?limit=5&colour=red");
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(error_of(reply).find("\"colour\""), std::string::npos) << reply.body;
  EXPECT_EQ(get("/livez?x=1").status, 400);
}

TEST_F(AdminServerTest, RepeatedOrShapelessParametersAreRefused) {
  EXPECT_EQ(get("/connections?limit=5&limit=6").status, 400);
  EXPECT_EQ(get("/connections?limit").status, 400);
  EXPECT_EQ(get("/connections?=5").status, 400);
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

TEST_F(AdminServerTest, DrainReachesTheProxy) {
  const event::HttpReply reply = ask("POST", "/drain");
  EXPECT_EQ(reply.status, 202);
  EXPECT_TRUE(proxy_.draining);
}

TEST_F(AdminServerTest, PortsAreTakenOutOfUseAndBack) {
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
    EXPECT_NE(error_of(reply).find(socket_), std::string::npos) << reply.body;
  }
  EXPECT_FALSE(proxy_.draining);
  EXPECT_EQ(proxy_.port_order, "");
  EXPECT_NE(get("/metrics").body.find("fairlead_http_refused_total{reason=\"forbidden\"} 16\n"),
            std::string::npos);
}

TEST_F(AdminServerTest, SocketIsForRootAndTheProxysUserOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can connect as another user";
  constexpr uid_t kApplication = 65534;
  std::string answer[2];
  std::thread([&] {
    // The raw system call changes this thread alone.
    ASSERT_EQ(::syscall(SYS_setresuid, -1, kApplication, -1), 0);
    for (std::string& text : answer) {
      event::RawClient client(*endpoint_);
      client.send(&text == &answer[0] ? "POST /drain HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
                                      : "GET /linkgroups HTTP/1.1\r\n\r\n");
      text = client.read_to_end();
    }
  }).join();
  for (const std::string& text : answer) {
    EXPECT_TRUE(text.starts_with("HTTP/1.1 403 ")) << text;
    EXPECT_NE(text.find("uid 65534"), std::string::npos) << text;
  }
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
  const std::string text = get("/stats").body;
  EXPECT_NE(text.find("\ntotal.cdc.sent 7\n"), std::string::npos) << text;
  EXPECT_EQ(get("/stats?format=xml").status, 400);
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
  for (const char* limit : {"0", "-1", "10001", "many", ""})
    EXPECT_EQ(get("/connections?limit=" + std::string(limit)).status, 400) << limit;
}

TEST_F(AdminServerTest, LinksComeWithTheirGroupsAndAlone) {
  const json groups = get_json("/linkgroups");
  ASSERT_EQ(groups["link_groups"].size(), 1U);
  EXPECT_EQ(groups["link_groups"][0]["links"][0]["rnic"], "shm0");
  const json links = get_json("/links");
  ASSERT_EQ(links["links"].size(), 1U);
  EXPECT_EQ(links["links"][0]["worker"], 0);
}

TEST_F(AdminServerTest, DeviceThatAllWorkersSeeAlikeIsOneRow) {
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
  EXPECT_EQ(get("/fallbacks?all=yes").status, 400);
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

TEST_F(AdminServerTest, DoctorAddsTheFactsOfThisProcess) {
  const json checks = get_json("/doctor")["checks"];
  EXPECT_EQ(checks.back()["name"], "option_program");
  EXPECT_EQ(checks.back()["status"], "ok");
  EXPECT_GT(checks.size(), 5U);
}

TEST_F(AdminServerTest, ConfigIsPlainYaml) {
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

}  // namespace
}  // namespace fairlead::admin
