#include "wire/frame.h"

#include <gtest/gtest.h>

#include "unit/wire/hex.h"

namespace fairlead::wire::test {
namespace {

TEST(Frame, HeaderIsTypeAndLength) {
  EXPECT_EQ(to_hex(encode_frame_header({FrameType::kData, 0x1234})), "01001234");
  EXPECT_EQ(to_hex(encode_frame_header({FrameType::kUrgent, 1})), "02000001");
  EXPECT_EQ(to_hex(encode_frame_header({FrameType::kEnd, 0})), "03000000");
  EXPECT_EQ(to_hex(encode_position(FrameType::kHandOver, 0x0102030405060708)),
            "040000080102030405060708");
}

TEST(Frame, EachTypeHasItsLengths) {
  struct Case {
    std::uint8_t type;
    std::uint32_t length;
    bool good;
  };
  const Case cases[] = {
      {0, 0, false}, {1, 0, false}, {1, 1, true},   {1, kFrameBytesMax, true},
      {2, 1, true},  {2, 2, false}, {2, 0, false},  {1, kFrameBytesMax + 1, false},
      {3, 0, true},  {3, 1, false}, {4, 8, true},   {4, 7, false},
      {4, 9, false}, {5, 0, false}, {255, 8, false}};
  for (const Case& one : cases) {
    const auto bytes = encode_frame_header({static_cast<FrameType>(one.type), one.length});
    const Result<FrameHeader> header = decode_frame_header(bytes);
    ASSERT_EQ(header.has_value(), one.good) << int{one.type} << " " << one.length;
    if (!header) continue;
    EXPECT_EQ(header->type, static_cast<FrameType>(one.type));
    EXPECT_EQ(header->body_bytes, one.length);
  }
}

// The first byte distinguishes the client's frames from CLC.
TEST(Frame, PrefaceIsNoClc) { EXPECT_NE(kFramePreface[0], std::byte{0xe2}); }

}  // namespace
}  // namespace fairlead::wire::test
