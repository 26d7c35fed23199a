// Goal: reports of agents with any numbers give a table that is true as far as it can be.
#include "ctl/cluster/cluster_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fairlead::ctl {
namespace {

constexpr std::chrono::system_clock::time_point kNow{std::chrono::hours(24 * 365 * 50)};
constexpr const char* kLargest = "18446744073709551615";

// Of one agent that wrote its report at `seconds`, about these pods.
ClusterStatus status_of(const std::string& seconds, const std::string& pods) {
  const std::string report =
      R"({"node":"n","installed":true,"written_seconds":)" + seconds + ",\"pods\":[" + pods + "]}";
  ApiAnswer maps;
  maps.status = 200;
  maps.body = {{"items", {{{"data", {{kNodeStatusKey, report}}}}}}};
  return read_cluster_status(maps, "", kNow);
}

TEST(ClusterStatus, AReportIsSilentOnlyWhenItIsOld) {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(kNow.time_since_epoch());
  const auto silent = [](std::int64_t seconds) {
    return status_of(std::to_string(seconds), "").nodes.at(0).silent;
  };
  EXPECT_FALSE(silent(now.count() - 300));
  EXPECT_TRUE(silent(now.count() - 301));
  EXPECT_TRUE(silent(0));
  // Later than the clock's unit can hold.
  EXPECT_FALSE(silent(10'000'000'000));
  EXPECT_FALSE(status_of(kLargest, "").nodes.at(0).silent);
}

TEST(ClusterStatus, SumsOfHugeCountsDoNotWrap) {
  const std::string pod = R"({"namespace":"s","name":"p","smcr":)" + std::string(kLargest) +
                          R"(,"tcp":1,"reasons":{"memory":)" + kLargest + "}}";
  const ClusterStatus status = status_of("1576800000", pod + "," + pod);
  EXPECT_EQ(status.nodes.at(0).connections.smcr, UINT64_MAX);
  EXPECT_EQ(status.nodes.at(0).connections.tcp, 2U);
  EXPECT_EQ(status.namespaces.at("s").reasons.at("memory"), UINT64_MAX);
  EXPECT_THAT(status_text(status), testing::HasSubstr("100%"));
}

}  // namespace
}  // namespace fairlead::ctl
