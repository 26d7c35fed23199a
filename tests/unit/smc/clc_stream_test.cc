// Goal: a stream is split into its messages, and one that is not CLC is known by its first bytes.
// Method: pieces of any size.
#include "smc/clc/clc_stream.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace fairlead::smc {
namespace {

std::vector<std::byte> decline(std::uint8_t version) {
  wire::Decline message{.version = version, .reason = 0x03030000};
  std::array<std::byte, wire::kDeclineBytesMax> bytes;
  const std::size_t count = wire::encode(message, bytes);
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(ClcStream, TakesOneMessageAndWhatFollowsWithTheNext) {
  std::vector<std::byte> both = decline(1);
  const std::size_t first = both.size();
  const std::vector<std::byte> second = decline(2);
  both.insert(both.end(), second.begin(), second.end());
  ClcStream stream;
  EXPECT_TRUE(stream.empty());
  const auto taken = stream.feed(both);
  ASSERT_TRUE(taken);
  EXPECT_EQ(*taken, first);
  ASSERT_TRUE(stream.complete());
  EXPECT_EQ(stream.header().version, 1);
  EXPECT_EQ(stream.bytes().size(), first);
  EXPECT_EQ(stream.feed(second).value(), 0U);  // not before next()
  stream.next();
  EXPECT_TRUE(stream.empty());
  EXPECT_FALSE(stream.complete());
  EXPECT_EQ(stream.feed(std::span(both).subspan(first)).value(), second.size());
  EXPECT_EQ(stream.header().version, 2);
}

TEST(ClcStream, AnotherProtocolIsKnownByItsFirstByte) {
  ClcStream stream;
  const auto taken = stream.feed(as_bytes("G"));
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Errc::kMalformed);
  EXPECT_EQ(stream.bytes().size(), 1U);  // for the application
}

TEST(ClcStream, ABrokenHeaderIsRefusedWhenItIsWhole) {
  std::vector<std::byte> bytes = decline(2);
  bytes[5] = bytes[6] = std::byte{0xff};  // the length
  ClcStream stream;
  EXPECT_EQ(stream.feed(std::span(bytes).first(wire::kClcHeaderBytes - 1)).value(),
            wire::kClcHeaderBytes - 1);
  EXPECT_FALSE(stream.complete());
  EXPECT_FALSE(stream.feed(std::span(bytes).subspan(wire::kClcHeaderBytes - 1, 1)));
}

}  // namespace
}  // namespace fairlead::smc
