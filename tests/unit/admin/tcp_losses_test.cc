#include "admin/tcp_losses.h"

#include <gtest/gtest.h>

namespace fairlead::admin {
namespace {

constexpr std::string_view kText =
    "Ip: Forwarding DefaultTTL\n"
    "Ip: 1 64\n"
    "Tcp: RtoAlgorithm MaxConn RetransSegs InErrs\n"
    "Tcp: 1 -1 12345 0\n";

TEST(TcpLosses, ACounterIsFoundByPrefixAndName) {
  EXPECT_EQ(find_net_counter(kText, "Tcp:", "RetransSegs"), 12345U);
  EXPECT_EQ(find_net_counter(kText, "Tcp:", "RtoAlgorithm"), 1U);
  EXPECT_EQ(find_net_counter(kText, "Ip:", "DefaultTTL"), 64U);
}

TEST(TcpLosses, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(find_net_counter(kText, "Ip:", "RetransSegs"), std::nullopt);
  EXPECT_EQ(find_net_counter(kText, "Udp:", "InErrs"), std::nullopt);
  EXPECT_EQ(find_net_counter("", "Tcp:", "InErrs"), std::nullopt);
  EXPECT_EQ(find_net_counter("Tcp: InErrs", "Tcp:", "InErrs"), std::nullopt);
  EXPECT_EQ(find_net_counter("Tcp: A InErrs\nTcp: 1\n", "Tcp:", "InErrs"), std::nullopt);
}

TEST(TcpLosses, ANumberThatIsNoneIsNotTaken) {
  EXPECT_EQ(find_net_counter(kText, "Tcp:", "MaxConn"), std::nullopt);
  EXPECT_EQ(find_net_counter("Tcp: A\nTcp: 12x\n", "Tcp:", "A"), std::nullopt);
}

TEST(TcpLosses, TheKernelHasThem) {
  const TcpLosses one = read_tcp_losses();
  const TcpLosses other = read_tcp_losses();
  EXPECT_GE(other.retransmitted, one.retransmitted);
}

}  // namespace
}  // namespace fairlead::admin
