#include "admin/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/admin/canned.h"

namespace fairlead::admin {
namespace {

using testing::HasSubstr;

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
  void expect_check(const std::string& name, FactStatus status, const std::string& text = "") {
    const Fact fact = check(name);
    EXPECT_EQ(fact.status, status) << name << ": " << fact.text;
    EXPECT_THAT(fact.text, HasSubstr(text)) << name;
  }
  void set_devices(const std::vector<DeviceRow>& rows) {
    for (WorkerSnapshot& worker : snapshot_.workers) worker.devices = rows;
  }
  void add_device(const DeviceRow& row) { snapshot_.workers[0].devices.push_back(row); }

  CannedProxy proxy_;
  GatheredSnapshot snapshot_ = {{canned_snapshot(0), canned_snapshot(1)}, {}};
  std::vector<std::string> not_ready_;
  bool draining_ = false;
  double uptime_seconds_ = 0;
};

TEST_F(StandingChecks, HealthyProxyHasNothingToReport) {
  for (const char* name :
       {"ready", "workers", "devices", "link_groups", "links", "fallbacks", "memory", "limits"})
    expect_check(name, FactStatus::kOk);
}

TEST_F(StandingChecks, FallbacksThatAlertsCountNameTheMostFrequentReason) {
  auto& stats = *proxy_.stats[0];
  stats.fallback[Direction::kInbound][Side::kPeer][FallbackReason::kVlan].add(1);
  stats.fallback[Direction::kInbound][Side::kLocal][FallbackReason::kNoRoute].add(2);
  const Fact fact = check("fallbacks");
  EXPECT_EQ(fact.status, FactStatus::kWarn);
  EXPECT_THAT(fact.text, AllOf(HasSubstr("3 of 10 connections"), HasSubstr("no_route (2)")));
  EXPECT_EQ(fact.fix, fallback_info(FallbackReason::kNoRoute).hint);
}

TEST_F(StandingChecks, FallbacksThatNoAlertCountsAreNoFault) {
  expect_check("fallbacks", FactStatus::kOk, "10 wanted");
}

TEST_F(StandingChecks, WithoutAnRnicThatWasMeantEveryConnectionCounts) {
  auto& stats = *proxy_.stats[0];
  stats.fallback[Direction::kOutbound][Side::kLocal][FallbackReason::kRnicNotGiven].add(7);
  add_device({.name = "rnic", .kind = "verbs", .state = kDeviceAbsent, .reason = "rnic_not_given"});
  expect_check("fallbacks", FactStatus::kOk);
  expect_check("devices", FactStatus::kOk);
  snapshot_.workers[0].devices.back().missing = true;
  EXPECT_EQ(check("fallbacks").status, FactStatus::kOk) << "some connections are SMC-R";
  expect_check("devices", FactStatus::kWarn);
  for (auto& worker : proxy_.stats)
    for (Direction direction : {Direction::kOutbound, Direction::kInbound})
      worker->traffic[direction][Transport::kSmcr].connections_total.set(0);
  expect_check("fallbacks", FactStatus::kWarn, "rnic_not_given (7)");
  expect_check("fallbacks", FactStatus::kWarn, "none is SMC-R");
}

TEST_F(StandingChecks, LinksThatFailOftenAreAWarning) {
  for (auto& worker : proxy_.stats) worker->link_failed.set(3);
  expect_check("links", FactStatus::kWarn);
  uptime_seconds_ = 2 * kFlappingSeconds;
  expect_check("links", FactStatus::kOk);
}

TEST_F(StandingChecks, ConnectionsWithoutMemoryAreAWarning) {
  proxy_.stats[0]->fallback[Direction::kInbound][Side::kLocal][FallbackReason::kMemlockLimit].add(
      2);
  expect_check("memory", FactStatus::kWarn, "2 connections are TCP");
}

TEST_F(StandingChecks, ReasonsForNotBeingReadyAreRepeatedAndDrainingIsAWarning) {
  not_ready_ = {"one", "two"};
  EXPECT_EQ(check("ready").status, FactStatus::kFail);
  EXPECT_EQ(check("ready").text, "one; two");
  not_ready_.clear();
  draining_ = true;
  expect_check("ready", FactStatus::kWarn);
}

TEST_F(StandingChecks, SilentWorkerIsAFailure) {
  snapshot_.silent = {1};
  expect_check("workers", FactStatus::kFail, "worker 1 of 2");
}

TEST_F(StandingChecks, NoDeviceAtAllIsAWarningWhereOneIsMeant) {
  set_devices({});
  expect_check("devices", FactStatus::kOk, "every connection is TCP");
  set_devices({{.name = "rnic", .state = kDeviceAbsent, .detail = "none", .missing = true}});
  expect_check("devices", FactStatus::kWarn, "every connection is TCP");
}

TEST_F(StandingChecks, RnicThatTheNodeDidNotGiveIsToldAndNoFault) {
  const DeviceRow row = {.name = "rnic",
                         .state = kDeviceAbsent,
                         .detail = "the cluster gives no RNICs to pods of this namespace"};
  add_device(row);
  expect_check("devices", FactStatus::kOk, row.detail);
  set_devices({});
  add_device(row);
  expect_check("devices", FactStatus::kOk, "every connection is TCP; " + row.detail);
}

TEST_F(StandingChecks, NoActivePortIsAFailureThatSaysWhy) {
  for (WorkerSnapshot& worker : snapshot_.workers) {
    worker.devices[0].state = "down";
    worker.devices[0].detail = "cable is out";
  }
  expect_check("devices", FactStatus::kFail, "shm0/1 (cable is out)");
}

TEST_F(StandingChecks, RnicThatMayNotBeOpenedIsNamedWithWhatToDo) {
  add_device({.name = "mlx5_0",
              .kind = "verbs",
              .state = "down",
              .detail = "ibv_open_device: Permission denied",
              .reason = "device_open_eperm"});
  expect_check("devices", FactStatus::kWarn, "mlx5_0 (ibv_open_device: Permission denied)");
  EXPECT_THAT(check("devices").fix, HasSubstr("RDMA device resource"));
}

TEST_F(StandingChecks, PortOfAnotherNetworkIsPassedOverInWords) {
  set_devices({{.name = "rxe1",
                .kind = "verbs",
                .port = 1,
                .state = "active",
                .gid = "fe80::1",
                .detail = "the port is not in this pod's network",
                .reason = "no_pnet"}});
  expect_check("devices", FactStatus::kWarn,
               "no device: every connection is TCP; passed over rxe1/1 (the port");
}

TEST_F(StandingChecks, RnicThatCannotCarrySmcIsPassedOverInWords) {
  const DeviceRow row = {.name = "siw0",
                         .kind = "verbs",
                         .state = kDeviceUnsupported,
                         .detail = "an iWARP device",
                         .reason = "rnic_unsupported"};
  add_device(row);
  expect_check("devices", FactStatus::kOk, "passed over siw0 (an iWARP device)");
  set_devices({row});
  expect_check("devices", FactStatus::kWarn, "passed over siw0 (an iWARP device)");
}

TEST_F(StandingChecks, PortWithoutGidIsAFailureWhenItIsTheOnlyOne) {
  for (WorkerSnapshot& worker : snapshot_.workers) worker.devices[0].gid = "";
  expect_check("devices", FactStatus::kFail, "GID");
}

TEST_F(StandingChecks, OneOfTwoPortsDownIsAWarning) {
  DeviceRow second = snapshot_.workers[0].devices[0];
  second.port = 2;
  second.state = "down";
  add_device(second);
  expect_check("devices", FactStatus::kWarn);
}

TEST_F(StandingChecks, GroupsWithoutRedundancyOrLinkAreWarnings) {
  proxy_.stats[0]->link_groups_asymmetric_local.add(1);
  expect_check("link_groups", FactStatus::kWarn, "1 of 3 are asymmetric");
  proxy_.stats[0]->link_groups_none.add(1);
  EXPECT_THAT(check("link_groups").text, HasSubstr("no active link"));
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
  expect_check("limits", FactStatus::kWarn, "4 connections refused at a limit, 2 failures");
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
