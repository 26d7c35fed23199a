#include "admin/checks.h"

#include <gtest/gtest.h>

#include "unit/admin/canned.h"

namespace fairlead::admin {
namespace {

class StandingChecks : public testing::Test {
 protected:
  std::vector<Fact> checks() {
    const AdminSources sources = proxy_.sources();
    return standing_checks({.stats = sources.stats,
                            .snapshot = snapshot_,
                            .not_ready = not_ready_,
                            .draining = draining_,
                            .uptime_seconds = uptime_seconds_});
  }
  Fact check(const std::string& name) {
    for (Fact& fact : checks())
      if (fact.name == name) {
        // Every result except ok has a remedy.
        EXPECT_EQ(fact.fix.empty(), fact.status == FactStatus::kOk) << name;
        return fact;
      }
    ADD_FAILURE() << "no check " << name;
    return {};
  }

  CannedProxy proxy_;
  GatheredSnapshot snapshot_ = {{canned_snapshot(0), canned_snapshot(1)}, {}};
  std::vector<std::string> not_ready_;
  bool draining_ = false;
  double uptime_seconds_ = 0;
};

TEST_F(StandingChecks, HealthyProxyHasNothingToReport) {
  for (const char* name :
       {"ready", "workers", "devices", "link_groups", "links", "fallbacks", "memory", "limits"})
    EXPECT_EQ(check(name).status, FactStatus::kOk) << name;
}

TEST_F(StandingChecks, FallbacksThatAlertsCountNameTheMostFrequentReason) {
  auto& stats = *proxy_.stats[0];
  stats.fallback[Direction::kInbound][Side::kPeer][FallbackReason::kVlan].add(1);
  stats.fallback[Direction::kInbound][Side::kLocal][FallbackReason::kNoRoute].add(2);
  const Fact fact = check("fallbacks");
  EXPECT_EQ(fact.status, FactStatus::kWarn);
  EXPECT_NE(fact.text.find("3 of 10 connections"), std::string::npos) << fact.text;
  EXPECT_NE(fact.text.find("no_route (2)"), std::string::npos) << fact.text;
  EXPECT_EQ(fact.fix, fallback_info(FallbackReason::kNoRoute).hint);
}

TEST_F(StandingChecks, FallbacksThatNoAlertCountsAreNoFault) {
  const Fact fact = check("fallbacks");
  EXPECT_EQ(fact.status, FactStatus::kOk);
  EXPECT_NE(fact.text.find("10 wanted"), std::string::npos) << fact.text;
}

TEST_F(StandingChecks, WithoutAnRnicThatWasMeantEveryConnectionCounts) {
  auto& stats = *proxy_.stats[0];
  stats.fallback[Direction::kOutbound][Side::kLocal][FallbackReason::kRnicNotGiven].add(7);
  DeviceRow row;
  row.name = "rnic";
  row.kind = "verbs";
  row.state = kDeviceAbsent;
  row.reason = "rnic_not_given";
  snapshot_.workers[0].devices.push_back(row);
  EXPECT_EQ(check("fallbacks").status, FactStatus::kOk);
  EXPECT_EQ(check("devices").status, FactStatus::kOk);
  snapshot_.workers[0].devices.back().missing = true;
  EXPECT_EQ(check("fallbacks").status, FactStatus::kOk) << "some connections are SMC-R";
  EXPECT_EQ(check("devices").status, FactStatus::kWarn);
  for (auto& worker : proxy_.stats)
    for (Direction direction : {Direction::kOutbound, Direction::kInbound})
      worker->traffic[direction][Transport::kSmcr].connections_total.set(0);
  EXPECT_EQ(check("fallbacks").status, FactStatus::kWarn);
  EXPECT_NE(check("fallbacks").text.find("rnic_not_given (7)"), std::string::npos);
  EXPECT_NE(check("fallbacks").text.find("none is SMC-R"), std::string::npos);
}

TEST_F(StandingChecks, LinksThatFailOftenAreAWarning) {
  for (auto& worker : proxy_.stats) worker->link_failed.set(3);
  EXPECT_EQ(check("links").status, FactStatus::kWarn);
  uptime_seconds_ = 2 * kFlappingSeconds;
  EXPECT_EQ(check("links").status, FactStatus::kOk);
}

TEST_F(StandingChecks, ConnectionsWithoutMemoryAreAWarning) {
  proxy_.stats[0]->fallback[Direction::kInbound][Side::kLocal][FallbackReason::kMemlockLimit].add(
      2);
  EXPECT_EQ(check("memory").status, FactStatus::kWarn);
  EXPECT_NE(check("memory").text.find("2 connections are TCP"), std::string::npos);
}

TEST_F(StandingChecks, ReasonsForNotBeingReadyAreRepeated) {
  not_ready_ = {"one", "two"};
  EXPECT_EQ(check("ready").status, FactStatus::kFail);
  EXPECT_EQ(check("ready").text, "one; two");
}

TEST_F(StandingChecks, DrainingIsAWarning) {
  draining_ = true;
  EXPECT_EQ(check("ready").status, FactStatus::kWarn);
}

TEST_F(StandingChecks, SilentWorkerIsAFailure) {
  snapshot_.silent = {1};
  EXPECT_EQ(check("workers").status, FactStatus::kFail);
  EXPECT_NE(check("workers").text.find("worker 1 of 2"), std::string::npos);
}

TEST_F(StandingChecks, NoDeviceAtAllIsAWarning) {
  for (WorkerSnapshot& worker : snapshot_.workers) worker.devices.clear();
  EXPECT_EQ(check("devices").status, FactStatus::kWarn);
}

TEST_F(StandingChecks, RnicThatTheNodeDidNotGiveIsToldAndNoFault) {
  DeviceRow row;
  row.name = "rnic";
  row.state = kDeviceAbsent;
  row.detail = "the cluster gives no RNICs to pods of this namespace";
  snapshot_.workers[0].devices.push_back(row);
  EXPECT_EQ(check("devices").status, FactStatus::kOk);
  EXPECT_NE(check("devices").text.find(row.detail), std::string::npos);
  for (WorkerSnapshot& worker : snapshot_.workers) worker.devices.clear();
  snapshot_.workers[0].devices.push_back(row);
  EXPECT_EQ(check("devices").status, FactStatus::kWarn);
  EXPECT_NE(check("devices").text.find(row.detail), std::string::npos);
}

TEST_F(StandingChecks, NoActivePortIsAFailureThatSaysWhy) {
  for (WorkerSnapshot& worker : snapshot_.workers) {
    worker.devices[0].state = "down";
    worker.devices[0].detail = "cable is out";
  }
  EXPECT_EQ(check("devices").status, FactStatus::kFail);
  EXPECT_NE(check("devices").text.find("shm0/1 (cable is out)"), std::string::npos);
}

TEST_F(StandingChecks, RnicThatMayNotBeOpenedIsNamedWithWhatToDo) {
  DeviceRow row;
  row.name = "mlx5_0";
  row.kind = "verbs";
  row.state = "down";
  row.reason = "device_open_eperm";
  row.detail = "ibv_open_device: Permission denied";
  snapshot_.workers[0].devices.push_back(row);
  EXPECT_EQ(check("devices").status, FactStatus::kWarn);
  EXPECT_NE(check("devices").text.find("mlx5_0 (ibv_open_device: Permission denied)"),
            std::string::npos);
  EXPECT_NE(check("devices").fix.find("RDMA device resource"), std::string::npos);
}

TEST_F(StandingChecks, PortOfAnotherNetworkIsPassedOverInWords) {
  DeviceRow row;
  row.name = "rxe1";
  row.port = 1;
  row.kind = "verbs";
  row.state = "active";
  row.gid = "fe80::1";
  row.reason = "no_pnet";
  row.detail = "the port is not in this pod's network";
  for (WorkerSnapshot& worker : snapshot_.workers) worker.devices = {row};
  EXPECT_EQ(check("devices").status, FactStatus::kWarn);
  EXPECT_NE(check("devices").text.find(
                "no device: every connection is TCP; passed over rxe1/1 (the port"),
            std::string::npos);
}

TEST_F(StandingChecks, RnicThatCannotCarrySmcIsPassedOverInWords) {
  DeviceRow row;
  row.name = "siw0";
  row.kind = "verbs";
  row.state = kDeviceUnsupported;
  row.reason = "rnic_unsupported";
  row.detail = "an iWARP device";
  snapshot_.workers[0].devices.push_back(row);
  EXPECT_EQ(check("devices").status, FactStatus::kOk);
  EXPECT_NE(check("devices").text.find("passed over siw0 (an iWARP device)"), std::string::npos);
  for (WorkerSnapshot& worker : snapshot_.workers) worker.devices = {row};
  EXPECT_EQ(check("devices").status, FactStatus::kWarn);
  EXPECT_NE(check("devices").text.find("passed over siw0 (an iWARP device)"), std::string::npos);
}

TEST_F(StandingChecks, PortWithoutGidIsAFailureWhenItIsTheOnlyOne) {
  for (WorkerSnapshot& worker : snapshot_.workers) worker.devices[0].gid = "";
  EXPECT_EQ(check("devices").status, FactStatus::kFail);
  EXPECT_NE(check("devices").text.find("GID"), std::string::npos);
}

TEST_F(StandingChecks, OneOfTwoPortsDownIsAWarning) {
  DeviceRow second = snapshot_.workers[0].devices[0];
  second.port = 2;
  second.state = "down";
  snapshot_.workers[0].devices.push_back(second);
  EXPECT_EQ(check("devices").status, FactStatus::kWarn);
}

TEST_F(StandingChecks, GroupsWithoutRedundancyOrLinkAreWarnings) {
  proxy_.stats[0]->link_groups_asymmetric_local.add(1);
  EXPECT_EQ(check("link_groups").status, FactStatus::kWarn);
  EXPECT_NE(check("link_groups").text.find("1 of 3 are asymmetric"), std::string::npos);
  proxy_.stats[0]->link_groups_none.add(1);
  EXPECT_NE(check("link_groups").text.find("no active link"), std::string::npos);
}

TEST_F(StandingChecks, MemoryNearItsLimitIsAWarning) {
  for (auto& stats : proxy_.stats) stats->pinned_bytes.set(15 << 20);
  EXPECT_EQ(check("memory").status, FactStatus::kWarn);
  for (auto& stats : proxy_.stats) stats->pinned_limit_bytes.set(0);
  EXPECT_EQ(check("memory").status, FactStatus::kOk);
}

TEST_F(StandingChecks, LimitsThatWereReachedAreAWarning) {
  proxy_.stats[0]->refused[RefusedFor::kLimit].add(4);
  proxy_.stats[0]->refused[RefusedFor::kDenied].add(9);
  proxy_.stats[1]->accept_errors.add(2);
  EXPECT_EQ(check("limits").status, FactStatus::kWarn);
  EXPECT_NE(check("limits").text.find("4 connections refused at a limit, 2 failures"),
            std::string::npos);
}

TEST_F(StandingChecks, TheRedirectIsJudgedByItsConnections) {
  const auto redirect = [this]() -> std::optional<FactStatus> {
    for (const Fact& fact : checks())
      if (fact.name == "redirect") return fact.status;
    return std::nullopt;
  };
  EXPECT_EQ(redirect(), std::nullopt);
  proxy_.stats[0]->refused[RefusedFor::kRedirect].add();
  EXPECT_EQ(redirect(), FactStatus::kFail);
  proxy_.stats[1]->redirected.add();
  EXPECT_EQ(redirect(), FactStatus::kWarn);
}

}  // namespace
}  // namespace fairlead::admin
