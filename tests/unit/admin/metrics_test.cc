#include "admin/metrics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "admin/metric_catalog.h"
#include "unit/admin/canned.h"

namespace fairlead::admin {
namespace {

class Metrics : public testing::Test {
 protected:
  std::string text() {
    const AdminSources sources = proxy_.sources();
    return render_metrics({.build = sources.build,
                           .stats = sources.stats,
                           .snapshot = snapshot_,
                           .facts = proxy_.facts,
                           .ready = true,
                           .draining = false,
                           .process = read_process_usage(),
                           .direct = proxy_.direct,
                           .http_refusals = &refusals_});
  }

  // Series, with its labels, to the text of its value.
  std::map<std::string, std::string> series() {
    std::map<std::string, std::string> found;
    std::istringstream lines(text());
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line.front() == '#') continue;
      const std::size_t space = line.rfind(' ');
      EXPECT_TRUE(found.emplace(line.substr(0, space), line.substr(space + 1)).second) << line;
    }
    return found;
  }

  CannedProxy proxy_;
  GatheredSnapshot snapshot_ = {{canned_snapshot(0), canned_snapshot(1)}, {}};
  event::HttpRefusals refusals_;
};

TEST_F(Metrics, CountersAreExactSums) {
  proxy_.stats[0]->refused[RefusedFor::kRedirect].add();
  constexpr std::uint64_t kLarge = (std::uint64_t{1} << 53) - 1;
  proxy_.stats[0]->traffic[Direction::kInbound][Transport::kTcp].rx_bytes.add(kLarge);
  const auto found = series();
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {R"(fairlead_connections_total{direction="outbound",transport="smcr"})", "10"},
           {R"(fairlead_connections_active{direction="outbound",transport="smcr"})", "2"},
           {R"(fairlead_bytes_total{direction="outbound",transport="smcr",flow="tx"})", "2000"},
           {R"(fairlead_bytes_total{direction="inbound",transport="tcp",flow="rx"})",
            std::to_string(kLarge)},
           {R"(fairlead_connections_refused_total{reason="redirect"})", "1"},
           {"fairlead_spin_seconds_total", "3"},
           {"fairlead_pinned_memory_limit_bytes", std::to_string(32 << 20)},
           {R"(fairlead_build_info{version="1.2.3",revision="abc123",backend="shm"})", "1"}})
    EXPECT_EQ(found.at(name), value) << name;
}

TEST_F(Metrics, FallbackReasonsBecomeSeriesWhenTheyOccur) {
  const auto found = series();
  std::size_t count = 0;
  for (const auto& [name, value] : found) count += name.starts_with("fairlead_fallback_total{");
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(found.at("fairlead_fallback_total{direction=\"inbound\",side=\"peer\","
                     "reason=\"no_rdma_device\",code=\"0x03030002\"}"),
            "6");
}

TEST_F(Metrics, DirectDestinationsAreCountedByReason) {
  const auto found = series();
  EXPECT_EQ(found.at("fairlead_destinations_direct{reason=\"peer_not_injected\"}"), "2");
  EXPECT_EQ(found.at("fairlead_destinations_direct{reason=\"no_rdma_device\"}"), "1");
  EXPECT_EQ(found.at("fairlead_direct_connections_total"), "12");
  proxy_.direct.unavailable = "by configuration";
  for (const auto& [name, value] : series()) {
    EXPECT_FALSE(name.starts_with("fairlead_destinations")) << name;
    EXPECT_FALSE(name.starts_with("fairlead_direct_")) << name;
  }
}

TEST_F(Metrics, HistogramBucketsAreCumulative) {
  const auto found = series();
  const std::string name = "fairlead_handshake_duration_seconds";
  std::uint64_t before = 0;
  for (const char* bound : {"0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01",
                            "0.05", "0.25", "1", "2.5", "6", "+Inf"}) {
    const auto at = found.find(name + "_bucket{result=\"smcr\",le=\"" + bound + "\"}");
    ASSERT_NE(at, found.end()) << bound;
    const std::uint64_t count = std::stoull(at->second);
    EXPECT_GE(count, before) << bound;
    before = count;
  }
  EXPECT_EQ(found.at(name + "_bucket{result=\"smcr\",le=\"0.00025\"}"), "0");
  EXPECT_EQ(found.at(name + "_bucket{result=\"smcr\",le=\"0.0005\"}"), "2");
  EXPECT_EQ(before, 4U);
  EXPECT_EQ(found.at(name + "_count{result=\"smcr\"}"), "4");
  EXPECT_DOUBLE_EQ(std::stod(found.at(name + "_sum{result=\"smcr\"}")), 200.0006);
  EXPECT_EQ(found.at(name + "_count{result=\"fallback\"}"), "0");
}

TEST_F(Metrics, PortIsUpOnlyIfEveryWorkerSeesItUp) {
  EXPECT_EQ(series().at("fairlead_rnic_port_up{rnic=\"shm0\",port=\"1\"}"), "1");
  snapshot_.workers[1].devices[0].state = "down";
  snapshot_.workers[1].devices[0].gid = "";
  const auto found = series();
  EXPECT_EQ(found.at("fairlead_rnic_port_up{rnic=\"shm0\",port=\"1\"}"), "0");
  EXPECT_EQ(found.at("fairlead_rnic_gid_usable{rnic=\"shm0\",port=\"1\"}"), "1");
  EXPECT_EQ(found.at("fairlead_pnet_info{pnet=\"NETA\",source=\"config\"}"), "1");
}

TEST_F(Metrics, LinksAreCountedByDeviceAndState) {
  const auto found = series();
  EXPECT_EQ(found.at("fairlead_links{rnic=\"shm0\",port=\"1\",state=\"active\"}"), "1");
  EXPECT_DOUBLE_EQ(std::stod(found.at("fairlead_link_rtt_seconds{rnic=\"shm0\"}")), 0.00025);
  EXPECT_EQ(found.at("fairlead_link_groups{state=\"single\"}"), "2");
  EXPECT_EQ(found.at("fairlead_link_groups{state=\"asymmetric_peer\"}"), "0");
}

TEST_F(Metrics, AtRestThereAreFewSeries) {
  for (auto& worker : proxy_.stats) worker = std::make_unique<WorkerStats>();
  WorkerSnapshot snapshot = canned_snapshot(0);
  snapshot.link_groups.clear();
  snapshot_.workers = {snapshot, snapshot};
  constexpr std::size_t kSeriesMax = 150;
  EXPECT_LT(series().size(), kSeriesMax);
}

TEST_F(Metrics, NoHistogramIsThereTwice) {
  proxy_.stats[0]->handshake_smcr.observe(0.003);
  proxy_.stats[0]->handshake_fallback.observe(0.07);
  std::map<std::string, std::string> buckets;  // by series without le
  for (const auto& [name, value] : series())
    if (const std::size_t bound = name.find("le=\""); bound != std::string::npos)
      buckets[name.substr(0, bound)] += value + " ";
  std::set<std::string> shapes;
  for (const auto& [name, shape] : buckets) EXPECT_TRUE(shapes.insert(shape).second) << name;
  EXPECT_GE(buckets.size(), 2U);
}

TEST_F(Metrics, RnicIsMissingWhereOneWasMeantToBe) {
  EXPECT_EQ(series().at("fairlead_rnic_missing"), "0");
  snapshot_.workers[1].devices.push_back({.name = "rnic", .state = kDeviceAbsent});
  EXPECT_EQ(series().at("fairlead_rnic_missing"), "0");
  snapshot_.workers[1].devices.back().missing = true;
  EXPECT_EQ(series().at("fairlead_rnic_missing"), "1");
}

TEST_F(Metrics, ProcessMetricsAreThoseOfThisProcess) {
  const auto found = series();
  EXPECT_GT(std::stod(found.at("process_resident_memory_bytes")), 1e6);
  EXPECT_GE(std::stod(found.at("process_open_fds")), 3);
  EXPECT_GT(std::stod(found.at("process_start_time_seconds")), 1e9);
  EXPECT_GE(std::stod(found.at("process_cpu_seconds_total")), 0);
}

TEST_F(Metrics, EveryMetricOfTheCatalogueIsProduced) {
  const std::string page = text();
  for (const MetricInfo& info : metric_catalog()) {
    const std::string type =
        "# TYPE " + std::string(info.name) + " " + std::string(to_string(info.type));
    EXPECT_NE(page.find(type + "\n"), std::string::npos) << info.name;
  }
}

TEST(MetricCatalogue, NamesAreUniqueAndHelpIsASentence) {
  std::set<std::string_view> names;
  for (const MetricInfo& info : metric_catalog()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_TRUE(info.help.ends_with('.')) << info.name;
    EXPECT_EQ(info.type == exposition::MetricType::kCounter, info.name.ends_with("_total"))
        << info.name;
  }
}

TEST_F(Metrics, PromtoolFindsNothingToComplainAbout) {
  if (std::system("promtool --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "promtool is not installed (Debian package prometheus)";
  const std::string path =
      testing::TempDir() + "fairlead-metrics-" + std::to_string(::getpid()) + ".txt";
  std::ofstream(path) << text();
  const std::string findings = path + ".out";
  const int rc =
      std::system(("promtool check metrics <" + path + " >" + findings + " 2>&1").c_str());
  std::ostringstream said;
  said << std::ifstream(findings).rdbuf();
  std::remove(path.c_str());
  std::remove(findings.c_str());
  EXPECT_EQ(rc, 0) << said.str();
  EXPECT_EQ(said.str(), "");
}

}  // namespace
}  // namespace fairlead::admin
