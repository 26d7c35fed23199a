#include "ctl/table.h"

#include <gtest/gtest.h>

#include "ctl/json_value.h"

namespace fairlead::ctl {
namespace {

TEST(Table, AlignsColumnsAndLeavesNoSpacesAtTheEnd) {
  Table table({{"Name"}, {"Count", Align::kRight}, {"Note"}});
  table.add_row({"a", "7", "x"});
  table.add_row({"longer", "1234567", ""});
  EXPECT_EQ(table.text(),
            "Name      Count  Note\n"
            "a             7  x\n"
            "longer  1234567  -\n");
}

TEST(Table, HostileNamesCannotSteerTheTerminal) {
  Table table({{"Name"}});
  table.add_row({"\x1b[2Jnode\n\xc2\x9b"});
  EXPECT_EQ(table.text(), "Name\n?[2Jnode???\n");
}

TEST(Table, HasABoundForCellsOfAnySize) {
  Table table({{"Name"}, {"Note"}});
  table.add_row({std::string(1 << 20, 'x'), "y"});
  for (std::size_t i = 0; i < Table::kRowsMax + 1; ++i) table.add_row({"a", "b"});
  const std::string text = table.text();
  EXPECT_LT(text.size(), (Table::kRowsMax + 2) * (Table::kCellCharsMax + 10));
  EXPECT_NE(text.find("xxx...  y\n"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\n2 more rows are left out\n"));
}

TEST(Printable, ReplacesControlsOfEveryKind) {
  EXPECT_EQ(printable("a\x1b\x7f\r\n\t~ z"), "a?????~ z");
  EXPECT_EQ(printable("\xc2\x9b|\xe2\x80\xae"), "??|???");
  EXPECT_EQ(printable_lines("a\x1b\nb"), "a?\nb\n");
}

TEST(EscapedJson, KeepsTheMeaningAndIsPrintable) {
  const std::string strange = "\x7f\xc2\x9b\xe2\x80\xae\xf0\x9f\x98\x80";
  const std::string escaped = escaped_json("{\"a\":\r\n\t\"x" + strange + "\"}\n");
  EXPECT_EQ(escaped, "{\"a\": \n\t\"x\\u007f\\u009b\\u202e\\ud83d\\ude00\"}\n");
  EXPECT_EQ(Json::parse(escaped)["a"], "x" + strange);
}

TEST(TableDeathTest, RowOfAnotherWidthIsABug) {
  Table table({{"Name"}});
  EXPECT_DEATH(table.add_row({"a", "b"}), "assertion failed");
}

TEST(BytesText, HasAtMostFourCharactersAndAUnit) {
  EXPECT_EQ(bytes_text(0), "0");
  EXPECT_EQ(bytes_text(1023), "1023");
  EXPECT_EQ(bytes_text(1024), "1.0Ki");
  EXPECT_EQ(bytes_text(1536), "1.5Ki");
  EXPECT_EQ(bytes_text(10 * 1024), "10Ki");
  EXPECT_EQ(bytes_text((1 << 20) - 1), "1.0Mi");
  EXPECT_EQ(bytes_text(std::uint64_t{5} << 40), "5.0Ti");
  EXPECT_EQ(bytes_text(~std::uint64_t{0}), "16Ei");
}

TEST(SecondsText, ChoosesAUnitThatSaysSomething) {
  EXPECT_EQ(seconds_text(0), "-");
  EXPECT_EQ(seconds_text(-1), "-");
  EXPECT_EQ(seconds_text(0.00025), "250us");
  EXPECT_EQ(seconds_text(0.0018), "1.8ms");
  EXPECT_EQ(seconds_text(12), "12.0s");
  EXPECT_EQ(seconds_text(185), "3m05s");
  EXPECT_EQ(seconds_text(7800), "2h10m");
  EXPECT_EQ(seconds_text(97.0 * 3600), "4d01h");
}

}  // namespace
}  // namespace fairlead::ctl
