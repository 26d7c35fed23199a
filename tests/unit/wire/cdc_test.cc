#include "wire/cdc.h"

#include <gtest/gtest.h>

#include <array>

#include "unit/wire/hex.h"

namespace fairlead::wire::test {
namespace {

constexpr CdcMessage kFull = {
    .sequence = 0x0102,
    .token = AlertToken(0x03040506),
    .producer = {0x0708, 0x090a0b0c},
    .consumer = {0x0d0e, 0x0f101112},
    .producer_flags = {.write_blocked = true, .urgent_present = true, .failover_validation = true},
    .state = {.done_writing = true, .aborted = true},
};

constexpr bool survives(const CdcMessage& message) {
  std::array<std::byte, kCdcBytes> bytes{};
  encode(message, bytes);
  const Result<CdcMessage> decoded = decode_cdc(bytes);
  return decoded.has_value() && *decoded == message;
}

// The codec works at compile time, so the compiler checks it whenever it compiles this file.
static_assert(survives(CdcMessage{}));
static_assert(survives(kFull));

std::string encoded(const CdcMessage& message) {
  std::array<std::byte, kCdcBytes> bytes;
  bytes.fill(std::byte{0xee});
  encode(message, bytes);
  return to_hex(bytes);
}

struct Sample {
  const char* name;
  const char* hex;
  CdcMessage message;
};

const Sample kSamples[] = {
    {"Data",
     "fe 2c 0001 00000001 0000 0000 00000064 0000 0000 00000000 00 00 z18",
     {.sequence = 1, .token = AlertToken(1), .producer = {0, 100}}},
    {"WindowFull",
     "fe 2c 0001 00000002 0000 0001 00000000 0000 0000 00000000 80 00 z18",
     {.sequence = 1,
      .token = AlertToken(2),
      .producer = {1, 0},
      .producer_flags = {.write_blocked = true}}},
    {"DoneAndClosed",
     "fe 2c 0003 00000001 0000 0000 00000064 0000 0000 00000042 00 c0 z18",
     {.sequence = 3,
      .token = AlertToken(1),
      .producer = {0, 100},
      .consumer = {0, 66},
      .state = {.done_writing = true, .closed = true}}},
    {"Failover",
     "fe 2c 0000 00000002 z16 08 00 z18",
     {.token = AlertToken(2), .producer_flags = {.failover_validation = true}}},
    {"EveryFieldApart", "fe 2c 0102 03040506 0000 0708 090a0b0c 0000 0d0e 0f101112 a8 a0 z18",
     kFull},
};

}  // namespace

TEST(CdcCodec, KnownMessagesBothWays) {
  for (const Sample& sample : kSamples) {
    SCOPED_TRACE(sample.name);
    const Bytes bytes = from_hex(sample.hex);
    ASSERT_EQ(bytes.size(), kCdcBytes);
    const auto decoded = decode_cdc(bytes);
    ASSERT_TRUE(decoded);
    EXPECT_TRUE(*decoded == sample.message);
    EXPECT_EQ(encoded(sample.message), to_hex(bytes));
  }
}

TEST(CdcCodec, EachFlagHasItsOwnBit) {
  for (unsigned bit = 0; bit < 8; ++bit) {
    const unsigned byte = 1U << bit;
    EXPECT_EQ(ProducerFlags::from_byte(byte).to_byte(), bit < 3 ? 0 : byte);
    EXPECT_EQ(ConnectionStateFlags::from_byte(byte).to_byte(), bit < 5 ? 0 : byte);
  }
  EXPECT_EQ((ProducerFlags{.write_blocked = true}.to_byte()), 0x80);
  EXPECT_EQ((ProducerFlags{.urgent_pending = true}.to_byte()), 0x40);
  EXPECT_EQ((ProducerFlags{.urgent_present = true}.to_byte()), 0x20);
  EXPECT_EQ((ProducerFlags{.consumer_update_requested = true}.to_byte()), 0x10);
  EXPECT_EQ((ProducerFlags{.failover_validation = true}.to_byte()), 0x08);
  EXPECT_EQ((ConnectionStateFlags{.done_writing = true}.to_byte()), 0x80);
  EXPECT_EQ((ConnectionStateFlags{.closed = true}.to_byte()), 0x40);
  EXPECT_EQ((ConnectionStateFlags{.aborted = true}.to_byte()), 0x20);
}

TEST(CdcCodec, RejectsLengthByteOtherThan44) {
  for (const char* length : {"00", "1a", "2b", "2d", "ff"}) {
    const Bytes bytes = from_hex(std::string("fe") + length + "z42");
    EXPECT_EQ(decode_cdc(bytes).error(), (Error{Errc::kMalformed, "CDC length"})) << length;
  }
}

TEST(CdcCodec, RejectsOtherTypes) {
  for (const char* type : {"00", "21", "27", "ff"}) {
    const Bytes bytes = from_hex(std::string(type) + "2c z42");
    EXPECT_FALSE(is_cdc(bytes));
    EXPECT_EQ(decode_cdc(bytes).error(), (Error{Errc::kMalformed, "CDC type"})) << type;
  }
  EXPECT_FALSE(is_cdc({}));
}

TEST(CdcCodec, Needs26BytesAndIgnoresWhatFollows44) {
  Bytes bytes = from_hex(kSamples[4].hex);
  for (std::size_t size = 0; size < kCdcBytesMin; ++size)
    EXPECT_EQ(decode_cdc(std::span(bytes).first(size)).error(),
              (Error{Errc::kTruncated, "CDC message"}));
  for (std::size_t size = kCdcBytesMin; size <= kCdcBytes; ++size) {
    const auto decoded = decode_cdc(std::span(bytes).first(size));
    ASSERT_TRUE(decoded);
    EXPECT_TRUE(*decoded == kFull);
  }
  bytes.resize(100, std::byte{0xff});
  EXPECT_TRUE(*decode_cdc(bytes) == kFull);
}

}  // namespace fairlead::wire::test
