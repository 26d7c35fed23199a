// Records between proxies and keepers, and what is no record.
#include "parking/keeper_record.h"

#include <gtest/gtest.h>

#include <vector>

namespace fairlead::parking {
namespace {

using Kind = KeeperRecord::Kind;

TEST(KeeperRecordTest, EveryKindComesBack) {
  for (const Kind kind : {Kind::kHello, Kind::kParcel, Kind::kDescriptors, Kind::kTaken,
                          Kind::kRefused, Kind::kPark, Kind::kOffer, Kind::kAccepted}) {
    KeeperRecord record;
    record.kind = kind;
    record.refusal = KeeperRecord::Refusal::kBusy;
    record.holds = true;
    record.answers_offers = record.fetches = true;
    record.count = 0x01020304;
    record.bytes = 0x0102030405060708;
    const auto decoded = decode_record(encode(record));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, record);
  }
}

TEST(KeeperRecordTest, AFetchNamesDescriptors) {
  KeeperRecord record;
  record.kind = Kind::kFetch;
  record.count = 7;
  record.bytes = 8;
  record.description = 0x01020304;
  record.table = 0x11121314;
  const auto decoded = decode_record(encode(record));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, record);
}

TEST(KeeperRecordTest, ALongerRecordOfANewerSideIsRead) {
  const KeeperRecordBytes bytes = encode({});
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.resize(48, std::byte{0xff});
  EXPECT_TRUE(decode_record(longer));
}

TEST(KeeperRecordTest, OtherBytesAreRefused) {
  const auto error_with = [](std::size_t at, std::uint8_t value) {
    KeeperRecordBytes bytes = encode({});
    bytes[at] = std::byte{value};
    const auto decoded = decode_record(bytes);
    return decoded ? std::optional<Errc>() : std::optional(decoded.error().code);
  };
  EXPECT_EQ(error_with(0, 'x'), Errc::kMalformed);
  EXPECT_EQ(error_with(3, 2), Errc::kUnsupported);
  EXPECT_EQ(error_with(4, 0), Errc::kMalformed);
  for (const std::uint8_t kind : std::array<std::uint8_t, 4>{7, 8, 9, 13})
    EXPECT_EQ(error_with(4, kind), Errc::kMalformed);
  EXPECT_EQ(error_with(5, 8), Errc::kMalformed);
  const KeeperRecordBytes bytes = encode({});
  EXPECT_EQ(decode_record(std::span(bytes).first(31)).error().code, Errc::kTruncated);
}

TEST(KeeperRecordTest, EveryRefusalHasASentence) {
  for (int i = 0; i <= static_cast<int>(KeeperRecord::Refusal::kShare); ++i)
    EXPECT_STRNE(to_string(static_cast<KeeperRecord::Refusal>(i)), "");
}

}  // namespace
}  // namespace fairlead::parking
