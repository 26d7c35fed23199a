#include <gtest/gtest.h>

#include <array>

#include "unit/wire/clc_samples.h"
#include "unit/wire/hex.h"
#include "wire/clc.h"

namespace fairlead::wire::test {
namespace {

Result<Proposal> decode(const std::string& hex) { return decode_proposal(from_hex(hex)); }

std::string encoded(const Proposal& proposal) {
  std::array<std::byte, kProposalBytesMax> bytes;
  bytes.fill(std::byte{0xee});
  return to_hex(std::span(bytes).first(encode(proposal, bytes)));
}

Proposal lab_proposal() {
  Proposal proposal;
  ProposalV2& v2 = proposal.v2.emplace();
  v2.ueids.push(*eid_from("LAB-UEID-1"));
  v2.gid = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0x0a, 0x09, 0, 2}};
  v2.max_links = 2;
  v2.feature_mask = 1;
  return proposal;
}

IpArea lab_ip_area() {
  IpArea area;
  area.ipv4_network = {10, 9, 0, 0};
  area.ipv4_length_bits = 24;
  return area;
}

void expect_both_ways(const std::string& hex, const Proposal& expected) {
  const auto decoded = decode(hex);
  ASSERT_TRUE(decoded) << decoded.error().what;
  EXPECT_TRUE(*decoded == expected);
  EXPECT_EQ(encoded(expected), to_hex(from_hex(hex)));
}

}  // namespace

TEST(Proposal, OfALinuxClientBothWays) {
  EXPECT_EQ(from_hex(kProposalLinux).size(), 156U);
  expect_both_ways(kProposalLinux, lab_proposal());
}

TEST(Proposal, FieldsOfVersion1AndVendorAreaBothWays) {
  Proposal expected = lab_proposal();
  expected.v1_path = ClcPath::kSmcr;
  expected.peer_id = {{1, 2, 3, 4, 5, 6, 7, 8}};
  expected.v1_gid = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
  expected.mac = {{0x52, 0x54, 0, 0, 0, 2}};
  expected.vendor = {{0xfa, 0x1e, 0xad}, {1, 2, 3, 4, 5}};
  IpArea& area = expected.ip_area.emplace(lab_ip_area());
  area.ipv6.push({{0xfd, 1}, 64});
  area.ipv6.push({{0xfd, 2}, 48});
  expect_both_ways(kProposalEverything, expected);
}

TEST(Proposal, OfVersion1BothWays) {
  Proposal expected;
  expected.version = 1;
  expected.v1_path = ClcPath::kSmcr;
  expected.v2_path = ClcPath::kNone;
  expected.peer_id = {{1, 2, 3, 4, 5, 6, 7, 8}};
  expected.mac = {{0x52, 0x54, 0, 0, 0, 2}};
  expected.ip_area = lab_ip_area();
  EXPECT_EQ(from_hex(kProposalV1).size(), 52U);
  EXPECT_TRUE(*decode(kProposalV1) == expected);
  EXPECT_EQ(from_hex(encoded(expected)).size(), 92U);
  EXPECT_TRUE(*decode(encoded(expected)) == expected);
}

TEST(Proposal, OfVersion1HasTheBlockWithItsVendorArea) {
  Proposal proposal = *decode(kProposalV1);
  proposal.vendor = {{0xfa, 0x1e, 0xad}, {1, 2, 3, 4, 5}};
  EXPECT_EQ(from_hex(encoded(proposal)).size(), 92U);
  const auto decoded = decode(encoded(proposal));
  ASSERT_TRUE(decoded) << decoded.error().what;
  EXPECT_TRUE(*decoded == proposal);
}

TEST(Proposal, OfVersion1MayKeepTheIpAreaBehindAnSmcdBlock) {
  const Result<Proposal> decoded = decode(kProposalV1Both);
  ASSERT_TRUE(decoded) << decoded.error().what;
  EXPECT_TRUE(decoded->had_smcd);
  EXPECT_EQ(decoded->v1_path, ClcPath::kBoth);
  EXPECT_TRUE(*decoded->ip_area == lab_ip_area());
  EXPECT_EQ(encoded(*decoded), encoded(*decode(kProposalV1))) << "without SMC-D";
}

TEST(Proposal, OfVersion1ThatOffersOnlySmcdKeepsItsSelector) {
  Bytes bytes = from_hex(kProposalV1);
  bytes[7] = std::byte{0x11};
  const auto decoded = decode_proposal(bytes);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->v1_path, ClcPath::kSmcd);
  EXPECT_TRUE(without_smcd(*decoded) == *decoded);
  EXPECT_TRUE(*decode(encoded(*decoded)) == *decoded);
}

TEST(Proposal, SmcdPartsOfVersion2AreSkippedAndNotWritten) {
  const Result<Proposal> decoded = decode(kProposalWithSmcd);
  ASSERT_TRUE(decoded) << decoded.error().what;
  EXPECT_TRUE(decoded->had_smcd);
  EXPECT_EQ(decoded->v2_path, ClcPath::kBoth);
  Proposal expected = lab_proposal();
  EXPECT_TRUE(without_smcd(*decoded) == expected);
  EXPECT_EQ(encoded(*decoded), to_hex(from_hex(kProposalLinux)));
}

TEST(Proposal, OfSmcdAloneLeavesNothing) {
  Proposal only_smcd = *decode(kProposalWithSmcd);
  only_smcd.v2_path = ClcPath::kSmcd;
  const auto again = decode(encoded(only_smcd));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->v1_path, ClcPath::kNone);
  EXPECT_EQ(again->v2_path, ClcPath::kNone);
  EXPECT_FALSE(again->v2.has_value());
  EXPECT_FALSE(again->had_smcd);
}

TEST(Proposal, OfTheLargestSizeBothWays) {
  Proposal proposal = lab_proposal();
  proposal.v1_path = ClcPath::kSmcr;
  IpArea& area = proposal.ip_area.emplace(lab_ip_area());
  for (std::uint8_t i = 0; i < kIpv6PrefixesMax; ++i) area.ipv6.push({{0xfd, i}, i});
  while (proposal.v2->ueids.count < kUeidsMax) proposal.v2->ueids.push(*eid_from("X"));
  const std::string hex = encoded(proposal);
  EXPECT_EQ(hex.size() / 2, 524U) << "652 with the largest SMC-D extension";
  EXPECT_TRUE(*decode(hex) == proposal);

  // The same with that extension: 48 bytes and 8 entries of 10.
  Bytes largest = from_hex(hex);
  largest[7] = std::byte{0x2c};
  largest[5] = std::byte{652 >> 8};
  largest[6] = std::byte{652 & 0xff};
  largest[52 + 172 + 1] = std::byte{8};
  largest.insert(largest.end() - 4, 48 + 8 * 10, std::byte{0xdd});
  const Result<Proposal> decoded = decode_proposal(largest);
  ASSERT_TRUE(decoded) << decoded.error().what;
  EXPECT_TRUE(without_smcd(*decoded) == proposal);
}

TEST(Proposal, WithoutUeidsIsWellFormed) {
  Proposal proposal = lab_proposal();
  proposal.v2->ueids = {};
  const std::string hex = encoded(proposal);
  EXPECT_EQ(hex.size() / 2, 124U);
  EXPECT_TRUE(*decode(hex) == proposal);
}

TEST(Proposal, VersionsAbove2AreReadAs2) {
  Bytes bytes = from_hex(kProposalLinux);
  bytes[7] = std::byte{0x32};
  EXPECT_TRUE(*decode_proposal(bytes) == lab_proposal());
}

constexpr Errc kMalformed = Errc::kMalformed;

TEST(Proposal, RefusalsNameTheField) {
  expect_refusals(
      decode_proposal,
      {{"Eyecatcher", &kProposalLinux, 3, 0, {kMalformed, "CLC eyecatcher"}},
       {"Trailer", &kProposalLinux, 155, 0, {kMalformed, "CLC trailer"}},
       {"Accept", &kProposalLinux, 4, 2, {kMalformed, "CLC type"}},
       {"TooShort", &kProposalLinux, 6, 0x9d, {Errc::kTruncated, "CLC message"}},
       {"TooLong", &kProposalLinux, 6, 0x9b, {kMalformed, "CLC length"}},
       {"Version0", &kProposalLinux, 7, 0x02, {kMalformed, "CLC version"}},
       {"Version1OfNoPath", &kProposalLinux, 7, 0x12, {kMalformed, "path"}},
       {"Version1OfThisLength", &kProposalLinux, 7, 0x10, {kMalformed, "CLC length"}},
       {"NoVersion2Path", &kProposalLinux, 7, 0x2a, {kMalformed, "CLC length"}},
       {"SmcdTooButNotThere", &kProposalLinux, 7, 0x2e, {kMalformed, "CLC length"}},
       {"IpAreaNotThere", &kProposalLinux, 7, 0x20, {kMalformed, "CLC length"}},
       {"IpAreaOffset41", &kProposalLinux, 39, 41, {kMalformed, "IP area offset"}},
       {"IpAreaOffset256", &kProposalLinux, 38, 1, {kMalformed, "IP area offset"}},
       {"NoExtension", &kProposalLinux, 51, 0, {kMalformed, "v2 extension offset"}},
       {"ExtensionAt27", &kProposalLinux, 51, 27, {kMalformed, "v2 extension offset"}},
       {"ExtensionAt173", &kProposalLinux, 51, 173, {kMalformed, "v2 extension offset"}},
       {"ExtensionAt284", &kProposalLinux, 50, 1, {kMalformed, "v2 extension offset"}},
       {"ExtensionBeyond", &kProposalLinux, 51, 172, {kMalformed, "v2 extension"}},
       {"ExtensionMoved", &kProposalLinux, 51, 29, {kMalformed, "CLC length"}},
       {"NoUeid", &kProposalLinux, 80, 0, {kMalformed, "CLC length"}},
       {"TwoUeids", &kProposalLinux, 80, 2, {kMalformed, "v2 extension"}},
       {"NineUeids", &kProposalLinux, 80, 9, {kMalformed, "UEID count"}},
       {"NineIsmEntries", &kProposalWithSmcd, 81, 9, {kMalformed, "ISM GID count"}},
       {"IsmEntryNotThere", &kProposalWithSmcd, 81, 2, {kMalformed, "CLC length"}},
       {"Ipv6Prefixes9", &kProposalV1, 47, 9, {kMalformed, "IPv6 prefix count"}},
       {"Ipv6PrefixNotThere", &kProposalV1, 47, 1, {kMalformed, "IP area"}},
       {"Ipv6PrefixTooFew", &kProposalEverything, 87, 1, {kMalformed, "CLC length"}},
       {"Ipv6PrefixOneMore", &kProposalEverything, 87, 3, {kMalformed, "CLC length"}},
       {"Version1WithOffset", &kProposalV1, 39, 1, {kMalformed, "IP area"}}});
}

TEST(ProposalDeathTest, EncodeInsistsOnAConsistentValue) {
  Proposal proposal = lab_proposal();
  proposal.v2.reset();
  EXPECT_DEATH(encoded(proposal), "given.v2");
  proposal = lab_proposal();
  proposal.ip_area = lab_ip_area();
  EXPECT_DEATH(encoded(proposal), "ip_area");
  proposal = lab_proposal();
  proposal.version = 1;
  EXPECT_DEATH(encoded(proposal), "!v1");
}

}  // namespace fairlead::wire::test
