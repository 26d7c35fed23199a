#include "smc/connection/cursor.h"

#include <gtest/gtest.h>

namespace fairlead::smc {
namespace {

constexpr std::uint32_t kSize = 64 * 1024;
using Kind = CursorStep::Kind;

TEST(Cursor, CountsWraps) {
  EXPECT_EQ(cursor_at(0, kSize), (wire::CdcCursor{0, 0}));
  EXPECT_EQ(cursor_at(kSize, kSize), (wire::CdcCursor{1, 0}));
  EXPECT_EQ(cursor_at(std::uint64_t{kSize} * 65536 + 5, kSize), (wire::CdcCursor{0, 5}));
}

TEST(Cursor, MovesForwardWithinTheLimit) {
  EXPECT_EQ(cursor_step(100, {0, 100}, kSize, 10), (CursorStep{Kind::kForward, 0}));
  EXPECT_EQ(cursor_step(100, {0, 110}, kSize, 10), (CursorStep{Kind::kForward, 10}));
  EXPECT_EQ(cursor_step(0, {1, 0}, kSize, kSize), (CursorStep{Kind::kForward, kSize}));
}

TEST(Cursor, RollsOverAfter65536Wraps) {
  const std::uint64_t position = std::uint64_t{kSize} * 65536 - 4;
  EXPECT_EQ(cursor_step(position, {0, 6}, kSize, 100), (CursorStep{Kind::kForward, 10}));
}

TEST(Cursor, IgnoresAnOlderOne) {
  EXPECT_EQ(cursor_step(100, {0, 90}, kSize, 10).kind, Kind::kStale);
  EXPECT_EQ(cursor_step(kSize + 5, {0, 6}, kSize, 10).kind, Kind::kStale);
  EXPECT_EQ(cursor_step(kSize + 5, {0, 5}, kSize, 10).kind, Kind::kStale);  // by a whole element
  EXPECT_EQ(cursor_step(kSize + 5, {0, 4}, kSize, 10).kind, Kind::kIllegal);
}

TEST(Cursor, RefusesWhatThePeerMayNotTouch) {
  EXPECT_EQ(cursor_step(100, {0, 111}, kSize, 10).kind, Kind::kIllegal);
  EXPECT_EQ(cursor_step(0, {0, kSize}, kSize, kSize).kind, Kind::kIllegal);
  EXPECT_EQ(cursor_step(0, {0, 0xffffffff}, kSize, kSize).kind, Kind::kIllegal);
  EXPECT_EQ(cursor_step(0, {1, 1}, kSize, kSize).kind, Kind::kIllegal);
  EXPECT_EQ(cursor_step(0, {500, 1}, kSize, kSize).kind, Kind::kIllegal);
}

TEST(RingWindow, SplitsAtTheEndOfTheRing) {
  EXPECT_EQ(ring_window(10, 100, 20), (RingWindow{{10, 20}, {0, 0}}));
  EXPECT_EQ(ring_window(90, 100, 20), (RingWindow{{90, 10}, {0, 10}}));
  EXPECT_EQ(ring_window(190, 100, 10), (RingWindow{{90, 10}, {0, 0}}));
}

TEST(ElementSize, GivesTheSmallestCodeThatHoldsTheBytes) {
  EXPECT_EQ(element_code(1), 0);
  EXPECT_EQ(element_code(16 * 1024), 0);
  EXPECT_EQ(element_code(16 * 1024 + 1), 1);
  EXPECT_EQ(element_code(512 * 1024), 5);
  EXPECT_EQ(element_code(std::uint64_t{1} << 40), kElementCodeMax);
}

}  // namespace
}  // namespace fairlead::smc
