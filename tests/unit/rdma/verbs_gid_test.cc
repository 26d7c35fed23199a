// Choice of a port's GID, and values that GIDs contain.
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

// The table of a RoCE adapter with two addresses: each address once for each type.
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

// The node's address, that of another pod's macvlan, and the pod's own, as every namespace sees
// them.
std::vector<GidEntry> shared_table() {
  return {{gid("fe80::5054:ff:fe00:1"), GidType::kRoceV2, 0, 2},
          {gid("::ffff:10.9.0.77"), GidType::kRoceV2, 1, 2},
          {gid("::ffff:10.9.0.1"), GidType::kRoceV1, 2, 2},
          {gid("::ffff:10.9.0.1"), GidType::kRoceV2, 3, 2},
          {gid("2001:db8::5"), GidType::kRoceV2, 4, 2},
          {gid("fe80::7"), GidType::kRoceV2, 5, 2}};
}

TEST(GidSelect, PrefersAddressesOfThePodThenThoseThatTheNodeNames) {
  struct Row {
    std::vector<Gid> own, named;
    std::uint32_t index;
    GidSource source;
  };
  const Gid node = gid("::ffff:10.9.0.1"), pod6 = gid("2001:db8::5"), local = gid("fe80::7");
  const std::vector<Row> rows = {
      {{}, {}, 1, GidSource::kTable},
      {{}, {node}, 3, GidSource::kNode},
      {{gid("::ffff:10.244.1.20")}, {node}, 3, GidSource::kNode},  // a veth is in no table
      {{gid("::ffff:10.9.0.77")}, {node}, 1, GidSource::kOwn},
      {{pod6}, {node}, 4, GidSource::kOwn},
      {{local}, {node}, 3, GidSource::kNode},  // reaches no other segment
      {{local}, {}, 1, GidSource::kTable},
      {{}, {gid("::ffff:10.9.0.99")}, 1, GidSource::kTable},  // has left the table
  };
  for (const Row& row : rows) {
    const std::optional<GidChoice> choice = choose_gid(shared_table(), row.own, row.named);
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->entry.index, row.index);
    EXPECT_EQ(choice->source, row.source);
  }
  EXPECT_FALSE(choose_gid({}, {{node}}, {{node}}));
}

TEST(GidSelect, NamesSayNothing) {
  // All entries have interface 2, in any namespace.
  std::vector<GidEntry> entries = shared_table();
  for (GidEntry& entry : entries) entry.netdev_index = 99;
  EXPECT_EQ(choose_gid(entries, {}, {})->entry.index, 1u);
}

TEST(GidSelect, PolicyTakesEntriesAway) {
  const auto indexes = [](const GidPolicy& policy) {
    std::vector<std::uint32_t> left;
    for (const GidEntry& entry : allowed_gids(shared_table(), policy)) left.push_back(entry.index);
    return left;
  };
  using Indexes = std::vector<std::uint32_t>;
  EXPECT_EQ(indexes({}), (Indexes{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(indexes({.subnets = {Cidr::parse("10.9.0.0/28").value()}}), (Indexes{2, 3}));
  EXPECT_EQ(indexes({.subnets = {Cidr::parse("2001:db8::/32").value(),
                                 Cidr::parse("10.9.0.77").value()}}),
            (Indexes{1, 4}));
  EXPECT_EQ(indexes({.subnets = {Cidr::parse("192.168.0.0/16").value()}}), Indexes{});
  EXPECT_EQ(indexes({.index = 3}), Indexes{3});
  EXPECT_EQ(indexes({.type = GidType::kRoceV1}), Indexes{2});
  EXPECT_EQ(indexes({.index = 3, .type = GidType::kRoceV1}), Indexes{});
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
