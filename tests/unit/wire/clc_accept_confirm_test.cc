#include <gtest/gtest.h>

#include <array>

#include "unit/wire/clc_samples.h"
#include "unit/wire/hex.h"
#include "wire/clc.h"

namespace fairlead::wire::test {
namespace {

Result<AcceptConfirm> decode(const std::string& hex) {
  return decode_accept_confirm(from_hex(hex));
}

std::string encoded(const AcceptConfirm& message) {
  std::array<std::byte, kConfirmBytesMax> bytes;
  bytes.fill(std::byte{0xee});
  return to_hex(std::span(bytes).first(encode(message, bytes)));
}

AcceptConfirm common() {
  AcceptConfirm message;
  message.peer_id = {{0x05, 0x82, 0x52, 0x54, 0, 0, 0, 1}};
  message.gid = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0x0a, 0x09, 0, 1}};
  message.mac = {{0x52, 0x54, 0, 0, 0, 1}};
  message.queue_pair = QpNumber(0x11);
  message.rmb_rkey = RemoteKey(0x34b);
  message.rmb_index = RmbIndex(1);
  message.alert_token = AlertToken(1);
  message.rmb_size_code = 2;
  message.mtu = Mtu::k1024;
  message.rmb_address = RemoteAddress(0xff1902f4c54f0000);
  message.first_psn = PacketSeq(0xa01521);
  return message;
}

AcceptConfirm first_contact_accept() {
  AcceptConfirm message = common();
  message.first_contact = true;
  message.eid = *eid_from("LAB-UEID-1");
  FirstContact& first = message.first_contact_v2.emplace();
  const std::string_view name = "(none)";
  std::copy(name.begin(), name.end(), first.host_name.begin());
  first.max_links = 2;
  first.feature_mask = 1;
  return message;
}

void expect_both_ways(const std::string& hex, const AcceptConfirm& expected) {
  const auto decoded = decode(hex);
  ASSERT_TRUE(decoded) << decoded.error().what;
  EXPECT_TRUE(*decoded == expected);
  EXPECT_EQ(encoded(expected), to_hex(from_hex(hex)));
}

}  // namespace

TEST(Accept, OfAFirstContactBothWays) {
  expect_both_ways(kAcceptFirst, first_contact_accept());
  EXPECT_EQ(from_hex(kAcceptFirst).size(), kAcceptBytesMax);
}

TEST(Accept, OfVersion1BothWays) {
  AcceptConfirm expected = common();
  expected.version = 1;
  expect_both_ways(kAcceptV1, expected);
  expected.first_contact = true;
  expect_both_ways(kAcceptV1First, expected);
}

TEST(Accept, OfAReusedGroupBothWays) {
  AcceptConfirm expected = common();
  expected.eid = *eid_from("LAB-UEID-1");
  expect_both_ways(kAcceptReuse, expected);
  expected.type = ClcType::kConfirm;
  expect_both_ways(kConfirmReuse, expected);
}

TEST(Accept, OfRelease0HasAnEmptyTail) {
  const auto decoded = decode(kAcceptRelease0);
  ASSERT_TRUE(decoded);
  const FirstContact& first = *decoded->first_contact_v2;
  EXPECT_EQ(first.release, 0);
  EXPECT_FALSE(first.direct);
  EXPECT_EQ(first.max_connections, 0);
  EXPECT_EQ(first.max_links, 0);
  EXPECT_EQ(encoded(*decoded), to_hex(from_hex(kAcceptRelease0)));

  Bytes dirty = from_hex(kAcceptRelease0);
  for (std::size_t at = 140; at < 156; ++at) dirty[at] = std::byte{0xff};
  EXPECT_TRUE(*decode_accept_confirm(dirty) == *decoded) << "the tail means nothing in release 0";
}

TEST(Confirm, OfAFirstContactListsUpToEightGids) {
  for (std::size_t count = 0; count <= kConfirmGidsMax; ++count) {
    const Result<AcceptConfirm> decoded = decode(confirm_first(count));
    ASSERT_TRUE(decoded) << decoded.error().what;
    ASSERT_EQ(decoded->gids.count, count);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(decoded->gids.items[i].bytes[15], i);
    EXPECT_EQ(encoded(*decoded), to_hex(from_hex(confirm_first(count))));
  }
}

TEST(Accept, HostNameOfAHostilePeerIsDropped) {
  for (std::byte bad : {std::byte{0x80}, std::byte{'\n'}, std::byte{0}, std::byte{0x7f}}) {
    Bytes bytes = from_hex(kAcceptFirst);
    bytes[108 + 31] = bad;
    EXPECT_EQ(decode_accept_confirm(bytes)->first_contact_v2->host_name, Eid::blank());
  }
}

TEST(Accept, EveryMtuAndSizeCodeBothWays) {
  Bytes bytes = from_hex(kAcceptReuse);
  for (unsigned size = 0; size <= 15; ++size) {
    for (unsigned mtu = 1; mtu <= 5; ++mtu) {
      bytes[50] = static_cast<std::byte>(size << 4U | mtu);
      const auto decoded = decode_accept_confirm(bytes);
      ASSERT_TRUE(decoded);
      EXPECT_EQ(decoded->rmb_size_code, size);
      EXPECT_EQ(static_cast<unsigned>(decoded->mtu), mtu);
      EXPECT_EQ(encoded(*decoded), to_hex(bytes));
    }
  }
}

TEST(Accept, OfSmcdIsUnsupported) {
  for (const char* hex : {"e2d4c3c4 02 0030 11 z36 e2d4c3c4", "e2d4c3c4 02 004e 21 z66 e2d4c3c4",
                          "e2d4c3d9 02 006c 21 z96 e2d4c3d9"})
    EXPECT_EQ(decode(hex).error(), (Error{Errc::kUnsupported, "path"})) << hex;
}

const std::string kConfirmFirst1 = confirm_first(1);

TEST(Accept, RefusalsNameTheField) {
  expect_refusals(
      decode_accept_confirm,
      {{"Eyecatcher", &kAcceptFirst, 0, 0, {Errc::kMalformed, "CLC eyecatcher"}},
       {"Trailer", &kAcceptFirst, 159, 0, {Errc::kMalformed, "CLC trailer"}},
       {"Proposal", &kAcceptFirst, 4, 1, {Errc::kMalformed, "CLC type"}},
       {"Decline", &kAcceptFirst, 4, 4, {Errc::kMalformed, "CLC type"}},
       {"TooShortForItsLength", &kAcceptFirst, 6, 0xa1, {Errc::kTruncated, "CLC message"}},
       {"TooLongForItsLength", &kAcceptFirst, 6, 0x9f, {Errc::kMalformed, "CLC length"}},
       {"Version0", &kAcceptFirst, 7, 0x08, {Errc::kMalformed, "CLC version"}},
       {"Version1Of160", &kAcceptFirst, 7, 0x18, {Errc::kMalformed, "CLC length"}},
       {"ReuseOf160", &kAcceptFirst, 7, 0x20, {Errc::kMalformed, "CLC length"}},
       {"ConfirmWithoutGids", &kAcceptFirst, 4, 3, {Errc::kMalformed, "CLC length"}},
       {"AcceptWithGids", &kConfirmFirst1, 4, 2, {Errc::kMalformed, "CLC length"}},
       {"FirstContactOf108", &kAcceptReuse, 7, 0x28, {Errc::kMalformed, "CLC length"}},
       {"Version2Of68", &kAcceptV1, 7, 0x20, {Errc::kMalformed, "CLC length"}},
       {"PathNone", &kAcceptFirst, 7, 0x2a, {Errc::kMalformed, "path"}},
       {"PathBoth", &kAcceptFirst, 7, 0x2b, {Errc::kMalformed, "path"}},
       {"RmbIndex0", &kAcceptFirst, 45, 0, {Errc::kMalformed, "RMB index"}},
       {"AlertToken0", &kAcceptFirst, 49, 0, {Errc::kMalformed, "alert token"}},
       {"MtuCode0", &kAcceptFirst, 50, 0x20, {Errc::kMalformed, "MTU code"}},
       {"MtuCode6", &kAcceptFirst, 50, 0x26, {Errc::kMalformed, "MTU code"}},
       {"MtuCode15", &kAcceptFirst, 50, 0x2f, {Errc::kMalformed, "MTU code"}},
       {"GidCount0", &kConfirmFirst1, 156, 0, {Errc::kMalformed, "GID count"}},
       {"GidCount2", &kConfirmFirst1, 156, 2, {Errc::kMalformed, "GID count"}},
       {"GidCount9", &kConfirmFirst1, 156, 9, {Errc::kMalformed, "GID count"}},
       {"GidCount255", &kConfirmFirst1, 156, 255, {Errc::kMalformed, "GID count"}}});
}

TEST(Accept, RefusesEveryLengthButTheKnownOnes) {
  for (std::size_t length = 78; length <= 300; ++length) {
    Bytes bytes = from_hex(kAcceptFirst);
    bytes.resize(length);
    const Bytes trailer = from_hex(kTrailer);
    std::copy(trailer.begin(), trailer.end(), bytes.end() - 4);
    bytes[5] = static_cast<std::byte>(length >> 8U);
    bytes[6] = static_cast<std::byte>(length);
    EXPECT_EQ(decode_accept_confirm(bytes).has_value(), length == 160) << length;
    bytes[7] = std::byte{0x20};
    EXPECT_EQ(decode_accept_confirm(bytes).has_value(), length == 108) << length;
  }
}

TEST(AcceptDeathTest, EncodeInsistsOnAConsistentValue) {
  AcceptConfirm message = first_contact_accept();
  message.first_contact_v2.reset();
  EXPECT_DEATH(encoded(message), "first_contact");
  message = first_contact_accept();
  message.type = ClcType::kProposal;
  EXPECT_DEATH(encoded(message), "message.type");
  message = first_contact_accept();
  message.path = ClcPath::kSmcd;
  EXPECT_DEATH(encoded(message), "message.path");
  message = first_contact_accept();
  message.rmb_size_code = 16;
  EXPECT_DEATH(encoded(message), "message.rmb_size_code");
}

}  // namespace fairlead::wire::test
