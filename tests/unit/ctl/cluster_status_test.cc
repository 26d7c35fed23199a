// Goal: reports of agents with any numbers give a table that is true as far as it can be.
#include "ctl/cluster/cluster_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "golden.h"

namespace fairlead::ctl {
namespace {

using testing::HasSubstr;

constexpr std::chrono::system_clock::time_point kNow{std::chrono::hours(24 * 365 * 50)};
constexpr const char* kLargest = "18446744073709551615";

ClusterStatus status_from(const std::string& report) {
  ApiAnswer maps;
  maps.status = 200;
  maps.body = {{"items", {{{"data", {{kNodeStatusKey, report}}}}}}};
  return read_cluster_status(maps, "", kNow);
}

// Of one agent that wrote its report at `seconds`, about these pods.
ClusterStatus status_of(const std::string& seconds, const std::string& pods) {
  return status_from(R"({"node":"n","installed":true,"written_seconds":)" + seconds +
                     ",\"pods\":[" + pods + "]}");
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
  EXPECT_THAT(status_text(status), HasSubstr("100%"));
}

// A report as an agent writes it, in which nothing is zero.
constexpr const char* kReport =
    R"({"node":"n1","version":"0.1.0","written_seconds":1576800000,"installed":true,"nri":"on",)"
    R"("rdma_mode":"shared","rnics":{"active":2,"missing":0},"pods":[)"
    R"({"namespace":"shop","name":"db-0","redirect":"good","option_program":"good","asked":true,)"
    R"("answers":true,"smcr":75,"tcp":25,"short":7,"links":4,)"
    R"("reasons":{"no_rdma_device":5,"peer_not_injected":20}}]})";

std::string text_with(const std::string& from, const std::string& to) {
  std::string report = kReport;
  if (!from.empty()) report.replace(report.find(from), from.size(), to);
  return status_text(status_from(report));
}

TEST(ClusterSentences, TablesHaveTheirValuesAndANumberInThePlaceOfATextIsShown) {
  EXPECT_TRUE(golden::matches(text_with("", ""),
                              FAIRLEAD_SOURCE_DIR "/tests/unit/ctl/golden/filled_cluster.txt"));
  EXPECT_THAT(text_with(R"("version":"0.1.0")", R"("version":2)"), HasSubstr("n1    2 "));
}

TEST(ClusterSentences, TroublesNameNodeAndPod) {
  for (const auto& [from, to, sentence] :
       {std::tuple(R"("written_seconds":1576800000)", R"("written_seconds":1)",
                   "node n1: its agent has not reported for some minutes"),
        {R"("installed":true)", R"("installed":false)", "node n1: the CNI plugin is not installed"},
        {R"("missing":0)", R"("missing":1)", "node n1: RNIC ports of its pool are missing"},
        {R"("redirect":"good")", R"("redirect":"missing")",
         "pod shop/db-0: it runs without its redirect"},
        {R"("option_program":"good")", R"("option_program":"missing")",
         "pod shop/db-0: it cannot send the SMC option"},
        {R"("answers":true)", R"("answers":false)",
         "pod shop/db-0: its sidecar does not answer the agent"}})
    EXPECT_THAT(text_with(from, to), testing::EndsWith("\n" + std::string(sentence) + "\n"));
  EXPECT_EQ(status_text({}),
            "no agent has written a report; does fairlead-node run, and is node.status on?\n");
}

}  // namespace
}  // namespace fairlead::ctl
