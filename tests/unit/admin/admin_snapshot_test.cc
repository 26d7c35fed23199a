// Goal: workers that answer late, twice, wrongly or never do not affect the answers of the others.
// Method: sources of snapshots that do so.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <thread>
#include <vector>

#include "admin/gather.h"
#include "unit/admin/admin_server_fixture.h"
#include "unit/http/raw_client.h"

namespace fairlead::admin {
namespace {

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
  const std::string metrics = get("/metrics").body;
  EXPECT_NE(metrics.find("fairlead_workers{state=\"silent\"} 1\n"), std::string::npos);
  EXPECT_NE(metrics.find("direction=\"outbound\",transport=\"smcr\"} 10\n"), std::string::npos);
  const json doctor = get_json("/doctor");
  const auto is_failure = [](const json& check) {
    return check["name"] == "workers" && check["status"] == "fail";
  };
  EXPECT_EQ(std::count_if(doctor["checks"].begin(), doctor["checks"].end(), is_failure), 1);
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

}  // namespace
}  // namespace fairlead::admin
