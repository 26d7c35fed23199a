#include "config/scalar.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <limits>

namespace fairlead::config {
namespace {

using namespace std::chrono_literals;

TEST(Durations, ReadEveryUnit) {
  EXPECT_EQ(duration_from("50us"), Duration(50us));
  EXPECT_EQ(duration_from("500ms"), Duration(500ms));
  EXPECT_EQ(duration_from("30s"), Duration(30s));
  EXPECT_EQ(duration_from("2m"), Duration(2min));
  EXPECT_EQ(duration_from("1h"), Duration(1h));
  EXPECT_EQ(duration_from("0"), Duration(0));
  EXPECT_EQ(duration_from("0s"), Duration(0));
}

TEST(Durations, RefuseWhatHasNoUnitOrIsNoWholeNumberOrDoesNotFit) {
  for (const char* text : {"", "30", "s", "1.5s", "-1s", "+1s", " 1s", "1s ", "1 s", "1S", "1d",
                           "01s", "1s1s", "0x1s", "1_0s", "1\xc2\xb5s"})
    EXPECT_FALSE(duration_from(text).has_value()) << text;
  EXPECT_TRUE(duration_from("2562047h").has_value());
  EXPECT_FALSE(duration_from("2562048h").has_value());
  EXPECT_FALSE(duration_from("18446744073709551615us").has_value());
  EXPECT_FALSE(duration_from("99999999999999999999999s").has_value());
}

TEST(Durations, AreWrittenInTheLargestWholeUnit) {
  EXPECT_EQ(duration_text(600s), "10m");
  EXPECT_EQ(duration_text(90s), "90s");
  EXPECT_EQ(duration_text(1500ms), "1500ms");
  EXPECT_EQ(duration_text(50us), "50us");
  EXPECT_EQ(duration_text(24h), "24h");
  EXPECT_EQ(duration_text(0s), "0");
}

TEST(Sizes, ReadBytesAndBinaryUnits) {
  EXPECT_EQ(size_from("16384"), 16384U);
  EXPECT_EQ(size_from("512KiB"), 512U * 1024);
  EXPECT_EQ(size_from("1MiB"), 1U << 20);
  EXPECT_EQ(size_from("2GiB"), 2ULL << 30);
  EXPECT_EQ(size_from("0"), 0U);
}

TEST(Sizes, RefuseUnitsOfThousandsAndSigns) {
  for (const char* text : {"", "KiB", "512KB", "512K", "512k", "1.5MiB", "-1", "1 KiB", "1kib",
                           "1B", "010", "18446744073709551616", "17179869184GiB"})
    EXPECT_FALSE(size_from(text).has_value()) << text;
}

TEST(Sizes, AreWrittenInTheLargestWholeUnit) {
  EXPECT_EQ(size_text(512 * 1024), "512KiB");
  EXPECT_EQ(size_text(1 << 20), "1MiB");
  EXPECT_EQ(size_text(1025), "1025");
  EXPECT_EQ(size_text(0), "0");
}

TEST(Integers, TakeTheFullRangeAndNothingElse) {
  EXPECT_EQ(integer_from("0"), 0U);
  EXPECT_EQ(integer_from("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  for (const char* text :
       {"", "18446744073709551616", "-1", "+1", "1e3", "0x10", "007", "1,000", "1 "})
    EXPECT_FALSE(integer_from(text).has_value()) << text;
}

TEST(Booleans, AreTrueOrFalseOnly) {
  EXPECT_EQ(boolean_from("true"), true);
  EXPECT_EQ(boolean_from("false"), false);
  for (const char* text : {"", "yes", "on", "True", "TRUE", "1", "0"})
    EXPECT_FALSE(boolean_from(text).has_value()) << text;
}

TEST(Quoting, LeavesNothingThatATerminalWouldObey) {
  EXPECT_EQ(in_quotes("plain"), "\"plain\"");
  EXPECT_EQ(in_quotes("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(in_quotes("\x1b[2J\n\xff"), R"("\x1b[2J\x0a\xff")");
  EXPECT_EQ(in_quotes(std::string(100, 'a')), "\"" + std::string(64, 'a') + "\"…");
}

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("level", "level"), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("levl", "level"), 1U);
  EXPECT_EQ(edit_distance("lvele", "level"), 2U);
  EXPECT_EQ(edit_distance("leevl", "level"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(Closest, FindsASlipAndNothingFartherAway) {
  const std::array<std::string_view, 3> names = {"level", "format", "limit"};
  EXPECT_EQ(closest("levle", names), "level");
  EXPECT_EQ(closest("Format", names), "format");
  EXPECT_EQ(closest("colour", names), "");
  EXPECT_EQ(closest(std::string(100'000, 'x'), names), "");
}

}  // namespace
}  // namespace fairlead::config
