#include <gtest/gtest.h>

#include <array>

#include "base/fallback.h"
#include "unit/wire/clc_samples.h"
#include "unit/wire/hex.h"
#include "wire/clc.h"

namespace fairlead::wire::test {
namespace {

std::string encoded(const Decline& decline) {
  std::array<std::byte, kDeclineBytesMax> bytes;
  bytes.fill(std::byte{0xee});
  return to_hex(std::span(bytes).first(encode(decline, bytes)));
}

}  // namespace

TEST(Decline, BothWays) {
  const PeerId peer{{0x05, 0x82, 0x52, 0x54, 0, 0, 0, 1}};
  const struct {
    const std::string& hex;
    Decline expected;
  } kTable[] = {
      {kDeclineV1, {.version = 1, .reason = 0x03030000, .os = PeerOs::kUnknown}},
      {kDeclineV2, {.version = 2, .peer_id = peer, .reason = 0x03030008, .os = PeerOs::kLinux}},
      {kDeclineOutOfSync, {.out_of_sync = true, .peer_id = peer, .reason = 0x04000000}}};
  for (const auto& row : kTable) {
    const Result<Decline> decoded = decode_decline(from_hex(row.hex));
    ASSERT_TRUE(decoded) << row.hex;
    EXPECT_TRUE(*decoded == row.expected) << row.hex;
    EXPECT_EQ(encoded(row.expected), to_hex(from_hex(row.hex)));
  }
  EXPECT_EQ(fallback_from_wire(0x03030000), FallbackReason::kNoDevice);
}

TEST(Decline, UnknownSystemsAreUnknown) {
  Bytes bytes = from_hex(kDeclineV2);
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
  Bytes bytes = from_hex(kDeclineV2);
  bytes.back() = std::byte{0};
  EXPECT_EQ(decode_decline(bytes)->reason, 0x03030008U);
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
