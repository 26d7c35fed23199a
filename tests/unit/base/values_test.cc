// Small values: a bounded queue, fields of records, deadlines, and times as text.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "base/bounded_queue.h"
#include "base/record_fields.h"
#include "base/time.h"
#include "base/utc_time.h"

namespace fairlead {
namespace {

TEST(BoundedQueue, KeepsOrderAcrossTheWrap) {
  BoundedQueue<int> queue(3);
  for (int round = 0; round < 5; ++round) {
    queue.push(2 * round);
    queue.push(2 * round + 1);
    EXPECT_EQ(queue.pop(), 2 * round);
    EXPECT_EQ(queue.pop(), 2 * round + 1);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(BoundedQueue, TakesMemoryForWhatItHolds) {
  BoundedQueue<int> queue(100);
  EXPECT_EQ(queue.allocated_bytes(), 0U);
  int next = 0;
  for (int i = 0; i < 7; ++i) queue.push(i);
  for (; next < 5; ++next) EXPECT_EQ(queue.pop(), next);
  EXPECT_EQ(queue.allocated_bytes(), 8 * sizeof(int));
  // It grows while its front is in the middle.
  for (int i = 7; i < 105; ++i) queue.push(i);
  EXPECT_TRUE(queue.full());
  EXPECT_EQ(queue.allocated_bytes(), 100 * sizeof(int));
  for (; next < 105; ++next) EXPECT_EQ(queue.pop(), next);
  EXPECT_TRUE(queue.empty());
}

TEST(BoundedQueueDeathTest, OverflowAborts) {
  BoundedQueue<int> queue(1);
  queue.push(1);
  EXPECT_TRUE(queue.full());
  EXPECT_DEATH(queue.push(2), "assertion failed");
}

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

constexpr TimePoint at(int nanoseconds) { return TimePoint(Duration(nanoseconds)); }

TEST(DeadlineTest, TheEarliestOfTwoIsTheOneThatIsThere) {
  EXPECT_EQ(earliest(at(1), at(2)), at(1));
  EXPECT_EQ(earliest(at(2), at(1)), at(1));
  EXPECT_EQ(earliest(std::nullopt, at(2)), at(2));
  EXPECT_EQ(earliest(at(2), std::nullopt), at(2));
  EXPECT_EQ(earliest(std::nullopt, std::nullopt), std::nullopt);
}

TEST(DeadlineTest, IsDueFromItsMomentOn) {
  EXPECT_FALSE(is_due(at(2), at(1)));
  EXPECT_TRUE(is_due(at(2), at(2)));
  EXPECT_TRUE(is_due(at(2), at(3)));
  EXPECT_FALSE(is_due(std::nullopt, at(3)));
}

TEST(UtcTextTest, IsRfc3339ToTheSecondOrMillisecond) {
  constexpr std::time_t kMoment = 1795728599;
  const auto moment = std::chrono::system_clock::from_time_t(kMoment);
  EXPECT_EQ(utc_text(kMoment), "2026-11-26T21:29:59Z");
  EXPECT_EQ(utc_text(moment), "2026-11-26T21:29:59.000Z");
  EXPECT_EQ(utc_text(moment + std::chrono::microseconds(7999)), "2026-11-26T21:29:59.007Z");
  EXPECT_EQ(utc_text(std::chrono::system_clock::time_point() - std::chrono::milliseconds(1)),
            "1969-12-31T23:59:59.999Z");
}

}  // namespace
}  // namespace fairlead
