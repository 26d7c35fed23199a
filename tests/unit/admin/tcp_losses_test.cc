#include "admin/tcp_losses.h"

#include <gtest/gtest.h>

#include <sstream>

namespace fairlead::admin {
namespace {

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
