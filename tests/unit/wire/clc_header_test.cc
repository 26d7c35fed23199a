#include <gtest/gtest.h>

#include "unit/wire/hex.h"
#include "wire/clc.h"

namespace fairlead::wire::test {
namespace {

Result<ClcHeader> decode(const char* hex) { return decode_clc_header(from_hex(hex)); }

}  // namespace

TEST(ClcHeader, TellsTypeLengthAndVersion) {
  EXPECT_EQ(*decode("e2d4c3d9 01 009c 22"), (ClcHeader{ClcType::kProposal, 156, 2}));
  EXPECT_EQ(*decode("e2d4c3d9 02 0044 10"), (ClcHeader{ClcType::kAccept, 68, 1}));
  EXPECT_EQ(*decode("e2d4c3d9 03 00b4 28"), (ClcHeader{ClcType::kConfirm, 180, 2}));
  EXPECT_EQ(*decode("e2d4c3d9 04 001c 10"), (ClcHeader{ClcType::kDecline, 28, 1}));
}

TEST(ClcHeader, BothEyecatchersCount) {
  EXPECT_TRUE(decode("e2d4c3d9 04 002c 20"));
  EXPECT_TRUE(decode("e2d4c3c4 04 002c 20"));
}

TEST(ClcHeader, VersionsAbove2AreReportedAs2) {
  EXPECT_EQ(decode("e2d4c3d9 01 009c 32")->version, 2);
  EXPECT_EQ(decode("e2d4c3d9 01 009c f2")->version, 2);
}

TEST(ClcHeader, NeedsEightBytes) {
  const Bytes bytes = from_hex("e2d4c3d9 01 009c 22");
  for (std::size_t size = 0; size < 8; ++size)
    EXPECT_EQ(decode_clc_header(std::span(bytes).first(size)).error(),
              (Error{Errc::kTruncated, "CLC header"}));
}

TEST(ClcHeader, NamesTheFieldThatIsWrong) {
  const struct {
    const char* hex;
    const char* what;
  } kTable[] = {
      {"e2d4c3d8 01 009c 22", "CLC eyecatcher"}, {"00000000 01 009c 22", "CLC eyecatcher"},
      {"'SMCR' 01 009c 22", "CLC eyecatcher"},   {"'GET / HT'", "CLC eyecatcher"},
      {"e2d4c3d9 00 009c 22", "CLC type"},       {"e2d4c3d9 05 009c 22", "CLC type"},
      {"e2d4c3d9 ff 009c 22", "CLC type"},       {"e2d4c3d9 01 009c 02", "CLC version"},
  };
  for (const auto& row : kTable)
    EXPECT_EQ(decode(row.hex).error(), (Error{Errc::kMalformed, row.what})) << row.hex;
}

TEST(ClcHeader, LengthLiesBetweenTheLeastOfItsTypeAndTheLargestMessage) {
  const struct {
    const char* type;
    const char* version;
    unsigned least;
  } kTable[] = {{"01", "10", 52}, {"01", "20", 84}, {"02", "10", 48}, {"02", "20", 78},
                {"03", "10", 48}, {"03", "20", 78}, {"04", "10", 28}, {"04", "20", 44}};
  for (const auto& row : kTable) {
    Bytes bytes = from_hex(std::string("e2d4c3d9") + row.type + "0000" + row.version);
    for (unsigned length = 0; length <= 0xffff; ++length) {
      bytes[5] = static_cast<std::byte>(length >> 8U);
      bytes[6] = static_cast<std::byte>(length);
      const Result<ClcHeader> header = decode_clc_header(bytes);
      ASSERT_EQ(header.has_value(), length >= row.least && length <= 652) << length;
      if (!header) {
        ASSERT_EQ(header.error(), (Error{Errc::kMalformed, "CLC length"}));
      }
    }
  }
}

TEST(MayBeClc, KnowsTheEyecatchersByTheirFirstBytes) {
  for (const char* hex : {"e2", "e2d4", "e2d4c3", "e2d4c3d9", "e2d4c3c4", "e2d4c3d9ff"})
    EXPECT_TRUE(may_be_clc(from_hex(hex))) << hex;
  for (const char* hex : {"00", "47", "e3", "e2d3", "e2d4c4", "e2d4c3d8", "e2d4c3c5", "'SMCR'"})
    EXPECT_FALSE(may_be_clc(from_hex(hex))) << hex;
}

}  // namespace fairlead::wire::test
