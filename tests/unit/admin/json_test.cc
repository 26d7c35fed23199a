#include "admin/json.h"

#include <gtest/gtest.h>

#include <sstream>

#include "admin/code_text.h"
#include "admin/process_usage.h"
#include "admin/query.h"
#include "admin/tcp_losses.h"

namespace fairlead::admin {
namespace {

TEST(AdminJson, NameThatIsNotUtf8DoesNotSpoilTheAnswer) {
  LinkGroupRow row;
  row.peer_host = "node\xff\xfe";
  const event::HttpResponse response = json_response(200, to_json(row));
  EXPECT_FALSE(Json::parse(response.body, nullptr, false).is_discarded()) << response.body;
}

TEST(AdminJson, FlatTextHasAPathPerLeaf) {
  const Json json = {{"a", {{"b", 1}, {"c", "text"}}}, {"list", {true, nullptr}}};
  EXPECT_EQ(flat_text(json), "a.b 1\na.c text\nlist.0 true\nlist.1 null\n");
}

TEST(AdminJson, DecisionForSmcHasNoReason) {
  DecisionRow row;
  row.transport = Transport::kSmcr;
  const Json json = to_json(row);
  EXPECT_EQ(json["reason"], "");
  EXPECT_EQ(json["reason_code"], "");
  EXPECT_EQ(json["hint"], "");
}

TEST(CodeText, HasEightDigits) {
  EXPECT_EQ(code_text(0), "0x00000000");
  EXPECT_EQ(code_text(0x03030002), "0x03030002");
  EXPECT_EQ(code_text(0xffffffff), "0xffffffff");
}

TEST(PeerMatch, IsByWholeAddress) {
  EXPECT_TRUE(peer_matches("10.1.2.7:80", "10.1.2.7:80"));
  EXPECT_TRUE(peer_matches("10.1.2.7:80", "10.1.2.7"));
  EXPECT_FALSE(peer_matches("10.1.2.7:80", "10.1.2.7:8"));
  EXPECT_FALSE(peer_matches("10.1.2.77:80", "10.1.2.7"));
  EXPECT_TRUE(peer_matches("[fd00::7]:80", "fd00::7"));
  EXPECT_TRUE(peer_matches("[fd00::7]:80", "[fd00::7]"));
  EXPECT_FALSE(peer_matches("[fd00::7]:80", "fd00::"));
  EXPECT_FALSE(peer_matches("", "x"));
}

TEST(ProcessStat, NameMayHoldSpacesAndParentheses) {
  const auto stat = parse_process_stat(
      "42 (a ) b) S 1 42 42 0 -1 4194560 100 0 0 0 11 22 0 0 20 0 3 0 777 1000000 55 1844");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->cpu_ticks, 33U);
  EXPECT_EQ(stat->start_ticks, 777U);
  EXPECT_EQ(stat->resident_pages, 55U);
}

TEST(ProcessStat, ShortOrStrangeLinesAreNothing) {
  for (const char* line : {"", ")", "1 (a)", "1 (a) S", "1 (a) S 1 2 3",
                           "1 (a) S 1 42 42 0 -1 4194560 100 0 0 0 x y 0 0 20 0 3 0 7 10 55 1"})
    EXPECT_FALSE(parse_process_stat(line)) << line;
}

TEST(BootTime, IsFoundAmongOtherLines) {
  EXPECT_EQ(parse_boot_time("cpu 1 2\nbtime 1700000000\nprocesses 1\n"), 1700000000U);
  EXPECT_FALSE(parse_boot_time("cpu 1 2\n"));
}

using Counters = std::map<std::string, std::int64_t>;

Counters counters_in(const std::string& text, const std::string& prefix) {
  std::istringstream lines(text);
  return read_net_counters(lines, prefix);
}

const std::string kText =
    "Ip: Forwarding DefaultTTL\n"
    "Ip: 1 64\n"
    "Tcp: MaxConn RetransSegs\n"
    "Tcp: -1 12345\n";

TEST(TcpLosses, CountersAreReadByTheirPrefix) {
  EXPECT_EQ(counters_in(kText, "Tcp:"), (Counters{{"MaxConn", -1}, {"RetransSegs", 12345}}));
  EXPECT_EQ(counters_in(kText, "Ip:"), (Counters{{"Forwarding", 1}, {"DefaultTTL", 64}}));
}

TEST(TcpLosses, WhatIsNotThereIsNotRead) {
  EXPECT_TRUE(counters_in(kText, "Udp:").empty());
  EXPECT_TRUE(counters_in("", "Tcp:").empty());
  EXPECT_TRUE(counters_in("Tcp: InErrs\n", "Tcp:").empty());
  EXPECT_EQ(counters_in("Tcp: A InErrs\nTcp: 1\n", "Tcp:"), (Counters{{"A", 1}}));
  EXPECT_EQ(counters_in("Tcp: A B C\nTcp: 1 x 3\n", "Tcp:"), (Counters{{"A", 1}}));
}

TEST(TcpLosses, TheKernelHasThem) {
  const TcpLosses one = read_tcp_losses();
  const TcpLosses other = read_tcp_losses();
  EXPECT_GE(other.retransmitted, one.retransmitted);
}

}  // namespace
}  // namespace fairlead::admin
