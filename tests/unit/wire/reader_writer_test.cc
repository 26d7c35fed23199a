#include <gtest/gtest.h>

#include <array>

#include "unit/wire/hex.h"
#include "wire/reader.h"
#include "wire/writer.h"

namespace fairlead::wire::test {

TEST(Reader, ReadsBigEndianOfEveryWidth) {
  const Bytes bytes = from_hex("01 0203 040506 0708090a 0b0c0d0e0f101112 1314 4142");
  Reader in(bytes);
  EXPECT_EQ(in.u8(), 0x01);
  EXPECT_EQ(in.u16(), 0x0203);
  EXPECT_EQ(in.u24(), 0x040506U);
  EXPECT_EQ(in.u32(), 0x0708090aU);
  EXPECT_EQ(in.u64(), 0x0b0c0d0e0f101112ULL);
  EXPECT_EQ(in.bytes<2>(), (std::array<std::uint8_t, 2>{0x13, 0x14}));
  EXPECT_EQ(in.chars<2>(), (std::array<char, 2>{'A', 'B'}));
  EXPECT_EQ(in.remaining(), 0U);
  EXPECT_TRUE(in.ok());
}

TEST(Reader, HighBitsAreNotTakenForSigns) {
  const Bytes bytes = from_hex("ff ffff ffffff ffffffff ffffffffffffffff");
  Reader in(bytes);
  EXPECT_EQ(in.u8(), 0xff);
  EXPECT_EQ(in.u16(), 0xffff);
  EXPECT_EQ(in.u24(), 0xffffffU);
  EXPECT_EQ(in.u32(), 0xffffffffU);
  EXPECT_EQ(in.u64(), 0xffffffffffffffffULL);
}

TEST(Reader, GivesZeroBeyondTheEndAndStaysFailed) {
  const Bytes bytes = from_hex("ffffff");
  Reader in(bytes);
  EXPECT_EQ(in.u32(), 0U);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.remaining(), 0U);
  EXPECT_EQ(in.u8(), 0U) << "what is left must not be read after a failure";
  EXPECT_FALSE(in.ok());
}

TEST(Reader, SkipsToTheEndButNotBeyond) {
  const Bytes bytes = from_hex("010203");
  Reader to_end(bytes);
  to_end.skip(3);
  EXPECT_TRUE(to_end.ok());
  Reader beyond(bytes);
  beyond.skip(4);
  EXPECT_FALSE(beyond.ok());
  Reader far_beyond(bytes);
  far_beyond.skip(SIZE_MAX);
  EXPECT_FALSE(far_beyond.ok());
}

TEST(Writer, WritesBigEndianOfEveryWidth) {
  std::array<std::byte, 24> out{};
  Writer writer(out);
  writer.u8(0x01);
  writer.u16(0x0203);
  writer.u24(0x040506);
  writer.u32(0x0708090a);
  writer.u64(0x0b0c0d0e0f101112);
  writer.bytes(std::array<std::uint8_t, 2>{0x13, 0x14});
  writer.chars(std::array<char, 2>{'A', 'B'});
  writer.zeroes_until(24);
  EXPECT_EQ(writer.written(), 24U);
  EXPECT_EQ(to_hex(out),
            "0102030405060708090a0b0c0d0e0f10111213144142"
            "0000");
}

TEST(Writer, ZeroesOverwriteWhatTheBufferHeld) {
  std::array<std::byte, 3> out;
  out.fill(std::byte{0xee});
  Writer writer(out);
  writer.zeroes(2);
  EXPECT_EQ(to_hex(out), "0000ee");
}

TEST(WriterDeathTest, AssertsWhenItsBufferIsFull) {
  std::array<std::byte, 3> out{};
  Writer writer(out);
  writer.u16(1);
  EXPECT_DEATH(writer.u16(2), "out_.size\\(\\)");
}

TEST(WriterDeathTest, AssertsWhen24BitsAreNotEnough) {
  std::array<std::byte, 3> out{};
  Writer writer(out);
  EXPECT_DEATH(writer.u24(0x01000000), "value");
}

TEST(Stores, AreTheInverseOfTheLoads) {
  std::array<std::byte, 4> out{};
  store_be32(out, 0x89abcdef);
  EXPECT_EQ(load_be32(out), 0x89abcdefU);
  EXPECT_EQ(to_hex(out), "89abcdef");
  store_be16(std::span(out).first<2>(), 0x1234);
  EXPECT_EQ(load_be16(std::span(out).first<2>()), 0x1234);
}

}  // namespace fairlead::wire::test
