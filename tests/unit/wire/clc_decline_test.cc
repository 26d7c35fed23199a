#include <gtest/gtest.h>

#include <array>

#include "base/fallback.h"
#include "unit/wire/hex.h"
#include "wire/clc.h"

namespace fairlead::wire::test {
namespace {

constexpr const char* kV1 = "e2d4c3d9 04 001c 10 z8 03030000 00 z3 e2d4c3d9";
constexpr const char* kV2 = "e2d4c3d9 04 002c 20 0582525400000001 03030008 20 z3 z16 e2d4c3d9";
constexpr const char* kOutOfSync =
    "e2d4c3d9 04 002c 28 0582525400000001 04000000 20 z3 z16 e2d4c3d9";

std::string encoded(const Decline& decline) {
  std::array<std::byte, kDeclineBytesMax> bytes;
  bytes.fill(std::byte{0xee});
  return to_hex(std::span(bytes).first(encode(decline, bytes)));
}

}  // namespace

TEST(Decline, Version1BothWays) {
  const Decline expected{.version = 1, .reason = 0x03030000, .os = PeerOs::kUnknown};
  const Result<Decline> decoded = decode_decline(from_hex(kV1));
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(*decoded == expected);
  EXPECT_EQ(fallback_from_wire(decoded->reason), FallbackReason::kNoDevice);
  EXPECT_EQ(encoded(expected), to_hex(from_hex(kV1)));
}

TEST(Decline, Version2BothWays) {
  const Decline expected{.version = 2,
                         .peer_id = {{0x05, 0x82, 0x52, 0x54, 0, 0, 0, 1}},
                         .reason = 0x03030008,
                         .os = PeerOs::kLinux};
  const Result<Decline> decoded = decode_decline(from_hex(kV2));
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(*decoded == expected);
  EXPECT_EQ(encoded(expected), to_hex(from_hex(kV2)));
}

TEST(Decline, OutOfSyncIsAFlag) {
  const Result<Decline> decoded = decode_decline(from_hex(kOutOfSync));
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(decoded->out_of_sync);
  EXPECT_EQ(encoded(*decoded), to_hex(from_hex(kOutOfSync)));
}

TEST(Decline, UnknownSystemsAreUnknown) {
  Bytes bytes = from_hex(kV2);
  bytes[20] = std::byte{0x10};
  EXPECT_EQ(decode_decline(bytes)->os, PeerOs::kZos);
  bytes[20] = std::byte{0x3f};
  EXPECT_EQ(decode_decline(bytes)->os, PeerOs::kAix);
  for (unsigned os : {0x00U, 0x40U, 0xf0U}) {
    bytes[20] = static_cast<std::byte>(os);
    EXPECT_EQ(decode_decline(bytes)->os, PeerOs::kUnknown);
  }
}

TEST(Decline, ADamagedTrailerStillDeclines) {
  Bytes bytes = from_hex(kV2);
  bytes.back() = std::byte{0};
  EXPECT_EQ(decode_decline(bytes)->reason, 0x03030008U);
}

TEST(Decline, ReservedBytesAndDiagnosisCodesAreIgnored) {
  Bytes bytes = from_hex(kV2);
  for (std::size_t at = 21; at < 40; ++at) bytes[at] = std::byte{0xff};
  EXPECT_TRUE(*decode_decline(bytes) == *decode_decline(from_hex(kV2)));
}

TEST(Decline, NamesTheFieldThatIsWrong) {
  const struct {
    const char* name;
    const char* hex;
    Error error;
  } kTable[] = {
      {"an Accept", "e2d4c3d9 02 006c 20 z96 e2d4c3d9", {Errc::kMalformed, "CLC type"}},
      {"version 1, too long", "e2d4c3d9 04 002c 10 z32 e2d4c3d9", {Errc::kMalformed, "CLC length"}},
      {"version 2, too long", "e2d4c3d9 04 0030 20 z36 e2d4c3d9", {Errc::kMalformed, "CLC length"}},
      {"bytes missing", "e2d4c3d9 04 002c 20 z32", {Errc::kTruncated, "CLC message"}},
      {"bytes following", "e2d4c3d9 04 002c 20 z32 e2d4c3d9 00", {Errc::kMalformed, "CLC length"}},
  };
  for (const auto& row : kTable) {
    SCOPED_TRACE(row.name);
    const Result<Decline> decoded = decode_decline(from_hex(row.hex));
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error(), row.error);
  }
}

}  // namespace fairlead::wire::test
