// Goal: lists of ports and blocks become the disjoint intervals that the packet filter accepts.
#include "cni/redirect/ranges.h"

#include <gtest/gtest.h>

#include <string>

namespace fairlead::cni {
namespace {

Intervals ports(const char* list) { return intervals_of(*kubernetes::parse_port_list(list)); }

// "80 443-445" of port intervals.
std::string text_of(const Intervals& intervals) {
  std::string text;
  for (const Interval& interval : intervals) {
    const auto port = [](const Key& key) { return key[0] * 256 + key[1]; };
    text += (text.empty() ? "" : " ") + std::to_string(port(interval.first));
    if (interval.first != interval.last) text += "-" + std::to_string(port(interval.last));
  }
  return text;
}

TEST(Ports, SortsAndJoinsWhatTouchesOrOverlaps) {
  EXPECT_EQ(text_of(ports("443,80")), "80 443");
  EXPECT_EQ(text_of(ports("80,81,82-90,85-100,200")), "80-100 200");
  EXPECT_EQ(text_of(ports("1-100,50")), "1-100");
  EXPECT_EQ(text_of(ports("65535,1-65534")), "1-65535");
}

TEST(Blocks, BecomeFirstAndLastAddress) {
  const auto blocks = kubernetes::parse_cidr_list("10.0.0.0/8,172.16.0.0/12,fd00::/9,192.0.2.7/32");
  ASSERT_TRUE(blocks);
  const Intervals v4 = intervals_of(*blocks, AF_INET);
  ASSERT_EQ(v4.size(), 3U);
  EXPECT_EQ(v4[0], (Interval{{10}, {10, 255, 255, 255}}));
  EXPECT_EQ(v4[1], (Interval{{172, 16}, {172, 31, 255, 255}}));
  EXPECT_EQ(v4[2], (Interval{{192, 0, 2, 7}, {192, 0, 2, 7}}));
  const Intervals v6 = intervals_of(*blocks, AF_INET6);
  ASSERT_EQ(v6.size(), 1U);
  EXPECT_EQ(v6[0].last[1], 0x7f);
  EXPECT_EQ(v6[0].last[15], 0xff);
}

TEST(Blocks, JoinNeighboursAndReachTheEnd) {
  const auto halves = kubernetes::parse_cidr_list("128.0.0.0/1,0.0.0.0/1");
  const Intervals all = intervals_of(*halves, AF_INET);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_FALSE(successor(all[0].last, 4));
  EXPECT_EQ(successor({1, 255}, 2), (Key{2, 0}));
}

}  // namespace
}  // namespace fairlead::cni
