// Goal: lengths, counts and byte orders at their limits, and every way in which an LLC message can
// be wrong.
#include <gtest/gtest.h>

#include <array>

#include "unit/wire/hex.h"
#include "wire/llc.h"

namespace fairlead::wire::test {
namespace {

Result<LlcMessage> decode(const std::string& hex) { return decode_llc(from_hex(hex)); }

Bytes encoded(LlcBody body) {
  std::array<std::byte, kLlcBytesMax> bytes{};
  const std::size_t length = encode(LlcMessage{LlcVersion::k2, std::move(body)}, bytes);
  return Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
}

AddLink add_link(std::size_t rkeys) {
  AddLink message;
  for (std::uint32_t i = 0; i < rkeys; ++i)
    message.rkeys.push({RemoteKey(i), RemoteKey(~i), RemoteAddress(~std::uint64_t{i})});
  return message;
}

}  // namespace

TEST(LlcLimits, AddLinkTakesUpTo255Rkeys) {
  for (std::size_t count : {0U, 1U, 2U, 254U, 255U}) {
    const Bytes bytes = encoded(add_link(count));
    ASSERT_EQ(bytes.size(), 72 + 16 * count);
    // The length of version 2 is little endian, as x86 kernels write it.
    EXPECT_EQ(std::to_integer<std::size_t>(bytes[1]), bytes.size() % 256);
    EXPECT_EQ(std::to_integer<std::size_t>(bytes[2]), bytes.size() / 256);
    const auto decoded = decode_llc(bytes);
    ASSERT_TRUE(decoded);
    EXPECT_TRUE(std::get<AddLink>(decoded->body) == add_link(count));
    EXPECT_EQ(decode_llc(std::span(bytes).first(bytes.size() - 1)).error(),
              (Error{Errc::kTruncated, count == 0 ? "ADD_LINK" : "rkey entries"}));
  }
}

TEST(LlcLimits, AddLinkCountOfABigEndianPeerIsUnderstood) {
  Bytes bytes = encoded(add_link(3));
  std::swap(bytes[70], bytes[71]);
  EXPECT_TRUE(std::get<AddLink>(decode_llc(bytes)->body) == add_link(3));
  bytes[70] = std::byte{1};
  EXPECT_EQ(decode_llc(bytes).error(), (Error{Errc::kMalformed, "rkey count"}));
}

TEST(LlcLimits, AddLinkRejectIsShortWhateverItCarries) {
  AddLink message = add_link(5);
  message.rejected = true;
  EXPECT_EQ(encoded(message).size(), kLlcBytes);
}

TEST(LlcLimits, ReqAddLinkTakesUpToEightGids) {
  for (std::size_t count = 0; count <= kConfirmGidsMax; ++count) {
    ReqAddLink message;
    for (std::size_t i = 0; i < count; ++i)
      message.gids.push(Gid{{0xfe, static_cast<std::uint8_t>(i)}});
    const Bytes bytes = encoded(message);
    ASSERT_EQ(bytes.size(), count == 0 ? 44 : 28 + 16 * count);
    EXPECT_TRUE(std::get<ReqAddLink>(decode_llc(bytes)->body) == message);
  }
}

TEST(LlcLimits, DeleteRkeyTakesUpTo255Keys) {
  for (std::size_t count : {1U, 9U, 10U, 255U}) {
    DeleteRkey message;
    for (std::uint32_t i = 0; i < count; ++i) message.rkeys.push(RemoteKey(i * 7));
    const Bytes bytes = encoded(message);
    ASSERT_EQ(bytes.size(), std::max<std::size_t>(44, 8 + 4 * count));
    EXPECT_TRUE(std::get<DeleteRkey>(decode_llc(bytes)->body) == message);
  }
}

TEST(LlcLimits, LengthOfVersion2IsIgnored) {
  for (const char* length : {"2c00", "002c", "0000", "ffff"})
    EXPECT_TRUE(decode(std::string("27") + length + "00 z40")) << length;
}

TEST(LlcLimits, BytesBehindTheMessageAreIgnored) {
  Bytes bytes = from_hex("26 2c 00 00 00 00000667 ff1902f4c5510000 z27");
  const Result<LlcMessage> alone = decode_llc(bytes);
  bytes.resize(8192, std::byte{0xee});
  EXPECT_TRUE(*decode_llc(bytes) == *alone);
}

TEST(LlcRefuses, FewerThan44Bytes) {
  for (const char* type : {"01", "07", "21", "22", "27", "29"}) {
    const Bytes bytes = from_hex(std::string(type) + "2c 00 00 01 z39");
    for (std::size_t size = 0; size < kLlcBytes; ++size)
      EXPECT_EQ(decode_llc(std::span(bytes).first(size)).error(),
                (Error{Errc::kTruncated, "LLC message"}));
  }
}

TEST(LlcRefuses, TypesThatItDoesNotKnow) {
  for (unsigned type = 0; type < 256; ++type) {
    bool known = false;
    for (unsigned good : {0x01U, 0x02U, 0x03U, 0x04U, 0x06U, 0x07U, 0x08U, 0x09U, 0x21U, 0x22U,
                          0x24U, 0x25U, 0x26U, 0x27U, 0x28U, 0x29U})
      known = known || type == good;
    Bytes bytes = from_hex("00 2c 00 00 01 z100");
    bytes[0] = static_cast<std::byte>(type);
    const Result<LlcMessage> decoded = decode_llc(bytes);
    EXPECT_EQ(decoded.has_value(), known) << type;
    if (!decoded) {
      EXPECT_EQ(decoded.error(), (Error{Errc::kUnsupported, "LLC type"})) << type;
    }
  }
}

TEST(LlcRefuses, AndNamesTheField) {
  const struct {
    const char* name;
    const char* hex;
    Error error;
  } kTable[] = {
      {"v1 length", "07 2d 00 00 z40", {Errc::kMalformed, "LLC length"}},
      {"v1 length of 0", "07 00 00 00 z40", {Errc::kMalformed, "LLC length"}},
      {"short add link", "22 2c 00 00 z40", {Errc::kTruncated, "ADD_LINK"}},
      {"short response", "22 2c 00 80 z67", {Errc::kTruncated, "ADD_LINK"}},
      {"rkeys missing", "22 58 00 00 z66 02 00 z16", {Errc::kTruncated, "rkey entries"}},
      {"rkeys both orders", "22 58 00 00 z66 01 01 z16", {Errc::kMalformed, "rkey count"}},
      {"GIDs missing", "25 2c 00 00 z20 02 z19", {Errc::kTruncated, "GIDs"}},
      {"nine GIDs", "25 2c 00 00 z20 09 z147", {Errc::kMalformed, "GID count"}},
      {"eight links", "26 2c 00 00 08 z39", {Errc::kMalformed, "link count"}},
      {"nothing continued", "28 2c 00 00 00 z39", {Errc::kMalformed, "link count"}},
      {"eight links continued", "08 2c 00 00 08 z39", {Errc::kMalformed, "link count"}},
      {"255 links", "06 2c 00 00 ff z39", {Errc::kMalformed, "link count"}},
      {"no rkey", "29 2c 00 00 00 z39", {Errc::kMalformed, "rkey count"}},
      {"nine rkeys in v1", "09 2c 00 00 09 z39", {Errc::kMalformed, "rkey count"}},
      {"ten rkeys in 44 bytes", "29 2c 00 00 0a z39", {Errc::kTruncated, "rkeys"}},
      {"255 rkeys in 1027 bytes", "29 2c 00 00 ff z1022", {Errc::kTruncated, "rkeys"}},
  };
  for (const auto& row : kTable) {
    SCOPED_TRACE(row.name);
    const Result<LlcMessage> decoded = decode(row.hex);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error(), row.error) << decoded.error().what;
  }
}

TEST(LlcDeathTest, EncodeInsistsOnMessagesOfTheVersion) {
  std::array<std::byte, kLlcBytesMax> bytes{};
  EXPECT_DEATH(encode(LlcMessage{LlcVersion::k2, AddLinkCont{}}, bytes), "version");
  EXPECT_DEATH(encode(LlcMessage{LlcVersion::k1, ReqAddLink{}}, bytes), "version");
  EXPECT_DEATH(encode(LlcMessage{LlcVersion::k2, DeleteRkey{}}, bytes), "rkeys.count");
  EXPECT_DEATH(encode(LlcMessage{LlcVersion::k1, AddLinkCont{.rkeys_left = 1}}, bytes), "rkeys");
  EXPECT_DEATH(encode(LlcMessage{LlcVersion::k2, ConfirmRkey{.to_follow = 1}}, bytes), "to_follow");
  EXPECT_DEATH(encode(LlcMessage{LlcVersion::k2, ConfirmRkeyCont{}}, bytes), "others.count");
}

}  // namespace fairlead::wire::test
