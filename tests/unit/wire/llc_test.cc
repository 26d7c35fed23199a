#include "wire/llc.h"

#include <gtest/gtest.h>

#include <array>

#include "unit/wire/hex.h"
#include "unit/wire/llc_samples.h"

namespace fairlead::wire::test {
namespace {

// The body of a sample, which must be a T.
template <class T>
T body_of(const char* name, LlcVersion version = LlcVersion::k2) {
  const LlcMessage decoded = decode_llc(from_hex(llc_sample(name))).value();
  EXPECT_EQ(decoded.version, version);
  EXPECT_TRUE(std::holds_alternative<T>(decoded.body)) << name;
  return std::get<T>(decoded.body);
}

Bytes encoded(const LlcMessage& message) {
  std::array<std::byte, kLlcBytesMax> bytes;
  bytes.fill(std::byte{0xee});
  const std::size_t length = encode(message, bytes);
  return Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
}

Gid gid(std::uint8_t host) {
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0x0a, 0x09, 0, host}};
}

constexpr Mac kServerMac{{0x52, 0x54, 0, 0, 0, 1}};
constexpr Mac kClientMac{{0x52, 0x54, 0, 0, 0, 2}};

}  // namespace

TEST(LlcCodec, EverySampleIsWrittenAsItWasRead) {
  for (const LlcSample& sample : kLlcSamples) {
    SCOPED_TRACE(sample.name);
    const Bytes bytes = from_hex(sample.hex);
    const Result<LlcMessage> decoded = decode_llc(bytes);
    ASSERT_TRUE(decoded) << decoded.error().what;
    EXPECT_EQ(to_hex(encoded(*decoded)), to_hex(bytes));
  }
}

TEST(LlcCodec, ConfirmLink) {
  ConfirmLink expected{.mac = kServerMac,
                       .gid = gid(1),
                       .queue_pair = QpNumber(0x11),
                       .link = LinkNumber(1),
                       .link_user_id = 0x101,
                       .max_links = 2,
                       .max_connections = 255};
  EXPECT_TRUE(body_of<ConfirmLink>("ConfirmLinkRequest") == expected);
  expected.max_connections = 0;
  EXPECT_TRUE(body_of<ConfirmLink>("V1ConfirmLink", LlcVersion::k1) == expected);
  expected.kind = LlcKind::kResponse;
  expected.mac = kClientMac;
  expected.gid = gid(2);
  expected.max_connections = 255;
  EXPECT_TRUE(body_of<ConfirmLink>("ConfirmLinkResponse") == expected);
}

TEST(LlcCodec, AddLink) {
  AddLink expected{.mac = kServerMac,
                   .gid = gid(1),
                   .queue_pair = QpNumber(0x12),
                   .link = LinkNumber(2),
                   .mtu_code = 3,
                   .first_psn = PacketSeq(0xaf505b)};
  EXPECT_TRUE(body_of<AddLink>("V1AddLink", LlcVersion::k1) == expected);
  expected.second_gid = gid(1);
  expected.rkeys.push({RemoteKey(0x34b), RemoteKey(0x50b), RemoteAddress(0xff1902f4c54f0000)});
  EXPECT_TRUE(body_of<AddLink>("AddLinkRequest") == expected);

  expected = body_of<AddLink>("V1AddLink", LlcVersion::k1);
  expected.kind = LlcKind::kResponse;
  expected.rejected = true;
  EXPECT_TRUE(body_of<AddLink>("AddLinkReject") == expected);
  expected.reject_reason = 1;
  EXPECT_TRUE(body_of<AddLink>("V1AddLinkReject", LlcVersion::k1) == expected);
}

TEST(LlcCodec, AddLinkThroughAGateway) {
  AddLink indirect = body_of<AddLink>("AddLinkRequest");
  EXPECT_TRUE(indirect.direct);
  indirect.direct = false;
  const Bytes bytes = encoded({LlcVersion::k2, indirect});
  EXPECT_EQ(bytes[44], std::byte{0});
  EXPECT_TRUE(std::get<AddLink>(decode_llc(bytes)->body) == indirect);
}

TEST(LlcCodec, AddLinkCont) {
  AddLinkCont expected{.link = LinkNumber(2), .rkeys_left = 3};
  expected.rkeys.push({RemoteKey(0x11), RemoteKey(0x12), RemoteAddress(0x13)});
  expected.rkeys.push({RemoteKey(0x21), RemoteKey(0x22), RemoteAddress(0x23)});
  EXPECT_TRUE(body_of<AddLinkCont>("V1AddLinkContOfThree", LlcVersion::k1) == expected);
  const AddLinkCont none{.kind = LlcKind::kResponse, .link = LinkNumber(2)};
  EXPECT_TRUE(body_of<AddLinkCont>("V1AddLinkContOfNone", LlcVersion::k1) == none);
}

TEST(LlcCodec, DeleteLink) {
  EXPECT_TRUE((body_of<DeleteLink>("DeleteLinkAll") ==
               DeleteLink{.all = true, .reason = DeleteLinkReason::kProgram}));
  EXPECT_TRUE(
      (body_of<DeleteLink>("DeleteLinkOne") ==
       DeleteLink{.orderly = true, .link = LinkNumber(2), .reason = DeleteLinkReason::kPathLost}));
  EXPECT_TRUE((body_of<DeleteLink>("DeleteLinkResponse") ==
               DeleteLink{.kind = LlcKind::kResponse,
                          .orderly = true,
                          .link = LinkNumber(2),
                          .reason = DeleteLinkReason::kUnknownLink}));
  EXPECT_TRUE((body_of<DeleteLink>("V1DeleteLink", LlcVersion::k1) ==
               DeleteLink{.all = true, .orderly = true, .reason = DeleteLinkReason::kOperator}));
}

TEST(LlcCodec, DeleteLinkCarriesReasonsThatNobodyNamed) {
  const Bytes bytes = from_hex("24 2c 00 20 02 deadbeef z35");
  const Result<LlcMessage> decoded = decode_llc(bytes);
  EXPECT_EQ(std::get<DeleteLink>(decoded->body).reason, DeleteLinkReason{0xdeadbeef});
  EXPECT_EQ(encoded(*decoded), bytes);
}

TEST(LlcCodec, ReqAddLink) {
  ReqAddLink expected;
  expected.gids.push(gid(2));
  expected.gids.push(gid(12));
  EXPECT_TRUE(body_of<ReqAddLink>("ReqAddLink") == expected);
  EXPECT_TRUE(body_of<ReqAddLink>("ReqAddLinkRejected") == ReqAddLink{.rejected = true});
}

TEST(LlcCodec, ConfirmRkey) {
  ConfirmRkey expected{.rkey = RemoteKey(0x667), .address = RemoteAddress(0xff1902f4c5510000)};
  EXPECT_TRUE(body_of<ConfirmRkey>("ConfirmRkeyOneLink") == expected);
  expected.kind = LlcKind::kResponse;
  expected.others.push({LinkNumber(2), RemoteKey(0x701), RemoteAddress(0xff1902f4c5520000)});
  EXPECT_TRUE(body_of<ConfirmRkey>("ConfirmRkeyTwoLinks") == expected);
  expected.others = {};
  expected.refused = true;
  expected.retry = true;
  EXPECT_TRUE(body_of<ConfirmRkey>("V1ConfirmRkey", LlcVersion::k1) == expected);
}

TEST(LlcCodec, ConfirmRkeyAndItsContinuation) {
  const RkeyOnLink second{LinkNumber(2), RemoteKey(0x701), RemoteAddress(0xff1902f4c5520000)};
  const RkeyOnLink third{LinkNumber(3), RemoteKey(0x801), RemoteAddress(0xff1902f4c5530000)};
  const RkeyOnLink fourth{LinkNumber(4), RemoteKey(0x901), RemoteAddress(0xff1902f4c5540000)};
  ConfirmRkey begin{.rkey = RemoteKey(0x667), .address = RemoteAddress(0xff1902f4c5510000)};
  begin.others.push(second);
  begin.others.push(third);
  begin.to_follow = 1;
  EXPECT_TRUE(body_of<ConfirmRkey>("ConfirmRkeyFourLinks") == begin);
  ConfirmRkeyCont rest;
  rest.others.push(fourth);
  EXPECT_TRUE(body_of<ConfirmRkeyCont>("ConfirmRkeyCont") == rest);
  rest.kind = LlcKind::kResponse;
  rest.refused = rest.retry = true;
  EXPECT_TRUE(body_of<ConfirmRkeyCont>("ConfirmRkeyContRefused") == rest);
  ConfirmRkeyCont more;
  for (const RkeyOnLink& link : {second, third, fourth}) more.others.push(link);
  more.to_follow = 1;
  EXPECT_TRUE(body_of<ConfirmRkeyCont>("V1ConfirmRkeyContOfFour", LlcVersion::k1) == more);
}

TEST(LlcCodec, DeleteRkey) {
  DeleteRkey expected;
  expected.rkeys.push(RemoteKey(0x667));
  EXPECT_TRUE(body_of<DeleteRkey>("DeleteRkeyRequest") == expected);
  expected.kind = LlcKind::kResponse;
  expected.rkeys.items[0] = RemoteKey(0);
  EXPECT_TRUE(body_of<DeleteRkey>("DeleteRkeyResponse") == expected);
  expected.some_unknown = true;
  expected.error_mask = 1;
  EXPECT_TRUE(body_of<DeleteRkey>("DeleteRkeyUnknown") == expected);
  expected.error_mask = 0x81;
  expected.rkeys = {};
  for (std::uint32_t key = 1; key <= 8; ++key) expected.rkeys.push(RemoteKey(key));
  EXPECT_TRUE(body_of<DeleteRkey>("V1DeleteRkeyOfEight", LlcVersion::k1) == expected);
}

TEST(LlcCodec, TestLink) {
  EXPECT_TRUE(body_of<TestLink>("TestLinkRequest") == TestLink{});
  EXPECT_TRUE(body_of<TestLink>("TestLinkResponse") == TestLink{.kind = LlcKind::kResponse});
  const TestLink with_data = body_of<TestLink>("V1TestLink", LlcVersion::k1);
  for (std::size_t i = 0; i < with_data.user_data.size(); ++i)
    EXPECT_EQ(std::to_integer<std::size_t>(with_data.user_data[i]), i);
}

}  // namespace fairlead::wire::test
