#include "base/record_fields.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace fairlead {
namespace {

TEST(RecordFieldsTest, AreLittleEndianAtTheirOffset) {
  std::array<std::byte, 12> record{};
  put_field(record, 1, std::uint32_t{0x01020304});
  put_field(record, 5, std::array<char, 2>{'a', 'b'});
  const std::array<unsigned, 12> expected = {0, 4, 3, 2, 1, 'a', 'b'};
  for (std::size_t i = 0; i < record.size(); ++i)
    EXPECT_EQ(std::to_integer<unsigned>(record[i]), expected[i]) << i;
}

TEST(RecordFieldsTest, AreReadAsTheyWereWritten) {
  std::array<std::byte, 12> record{};
  put_field(record, 3, std::uint64_t{0xfedcba9876543210});
  EXPECT_EQ(get_field<std::uint64_t>(record, 3), 0xfedcba9876543210);
  std::uint16_t half = 0;
  get_field(record, 4, half);
  EXPECT_EQ(half, 0x5432);
}

}  // namespace
}  // namespace fairlead
