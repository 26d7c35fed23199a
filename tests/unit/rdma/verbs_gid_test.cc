// Which GID of a port is taken, and what is read from GIDs.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "rdma/verbs/gid_select.h"

namespace fairlead::rdma::verbs {
namespace {

Gid gid(const char* text) {
  Gid made;
  EXPECT_EQ(inet_pton(AF_INET6, text, made.bytes.data()), 1) << text;
  return made;
}

// As a RoCE adapter with two addresses shows it: every address once a type.
std::vector<GidEntry> table() {
  return {{gid("fe80::5054:ff:fe00:1"), GidType::kRoceV1, 0, 2},
          {gid("fe80::5054:ff:fe00:1"), GidType::kRoceV2, 1, 2},
          {gid("2001:db8::1"), GidType::kRoceV2, 2, 2},
          {gid("::ffff:10.9.0.1"), GidType::kRoceV1, 3, 2},
          {gid("::ffff:10.9.0.1"), GidType::kRoceV2, 4, 2},
          {gid("::ffff:10.8.0.1"), GidType::kRoceV2, 5, 3}};
}

TEST(GidSelect, PrefersIpv4OverRoceV2WhereverItStands) {
  std::vector<GidEntry> entries = table();
  ASSERT_TRUE(choose_gid(entries));
  EXPECT_EQ(choose_gid(entries)->index, 4u);
  std::reverse(entries.begin(), entries.end());
  EXPECT_EQ(choose_gid(entries)->index, 5u);
}

TEST(GidSelect, GoesDownFromIpv6ToLinkLocalToRoceV1) {
  std::vector<GidEntry> entries = table();
  entries.resize(4);
  EXPECT_EQ(choose_gid(entries)->index, 2u);
  entries.erase(entries.begin() + 2);
  EXPECT_EQ(choose_gid(entries)->index, 1u);
  entries.erase(entries.begin() + 1);
  EXPECT_EQ(choose_gid(entries)->index, 3u);  // RoCEv1: the address that goes farther
}

TEST(GidSelect, TakesWhatAnInfiniBandPortHas) {
  const std::vector<GidEntry> entries = {{gid("fe80::2:c903:0:1"), GidType::kInfiniBand, 0, 0}};
  EXPECT_EQ(choose_gid(entries)->index, 0u);
}

TEST(GidSelect, FindsNothingInATableWithoutUsableEntries) {
  EXPECT_FALSE(choose_gid({}));
  const std::vector<GidEntry> useless = {{Gid{}, GidType::kRoceV2, 0, 0},
                                         {gid("::1"), GidType::kRoceV2, 1, 0},
                                         {gid("::ffff:127.0.0.1"), GidType::kRoceV2, 2, 0}};
  EXPECT_FALSE(choose_gid(useless));
}

TEST(GidSelect, FindsAnAddressInItsBestType) {
  const std::vector<GidEntry> entries = table();
  EXPECT_EQ(find_gid(entries, gid("::ffff:10.9.0.1"))->index, 4u);
  EXPECT_EQ(find_gid(entries, gid("::ffff:10.8.0.1"))->index, 5u);
  EXPECT_FALSE(find_gid(entries, gid("::ffff:10.9.0.2")));
}

TEST(GidSelect, ReadsTheMacFromTheLinkLocalGid) {
  const Mac expected{{0x52, 0x54, 0x00, 0x00, 0x00, 0x01}};
  EXPECT_EQ(mac_of_port(table()), expected);
  // Privacy addresses hide it.
  const std::vector<GidEntry> hidden = {{gid("fe80::1234:5678:9abc:def0"), GidType::kRoceV2, 0, 2}};
  EXPECT_FALSE(mac_of_port(hidden));
}

TEST(GidSelect, CarriesTheLidInTheMacField) {
  EXPECT_EQ(lid_of_mac(mac_of_lid(0xbeef)), 0xbeef);
  EXPECT_FALSE(lid_of_mac(Mac{{0x52, 0x54, 0, 0, 0, 1}}));
  EXPECT_EQ(mac_of_lid(1).bytes[0] & 0x03, 0x02);  // locally administered, unicast
}

}  // namespace
}  // namespace fairlead::rdma::verbs
