#include "wire/eid.h"

#include <gtest/gtest.h>

namespace fairlead::wire::test {

TEST(Eid, PadsWithBlanks) {
  const auto eid = eid_from("LAB-UEID.1");
  ASSERT_TRUE(eid);
  EXPECT_EQ(std::string(eid->bytes.begin(), eid->bytes.end()), "LAB-UEID.1" + std::string(22, ' '));
  EXPECT_EQ(to_string(*eid), "LAB-UEID.1");
}

TEST(Eid, FoldsLowerCase) {
  EXPECT_EQ(to_string(*eid_from("lab-ueid.9z")), "LAB-UEID.9Z");
  EXPECT_EQ(*eid_from("fairlead"), *eid_from("FAIRLEAD"));
}

TEST(Eid, MayBeginWithADigitAndHave32Characters) {
  EXPECT_TRUE(eid_from("0"));
  const std::string longest(32, 'X');
  ASSERT_TRUE(eid_from(longest));
  EXPECT_EQ(to_string(*eid_from(longest)), longest);
}

TEST(Eid, RefusalsNameTheReason) {
  const struct {
    std::string text;
    const char* what;
  } kTable[] = {{"", "empty EID"},
                {std::string(33, 'A'), "EID longer than 32"},
                {".LAB", "first character of EID"},
                {"-LAB", "first character of EID"},
                {" LAB", "first character of EID"},
                {"LAB UEID", "character of EID"},
                {"LAB ", "character of EID"},
                {"LAB_UEID", "character of EID"},
                {"LAB\xc3\x84", "character of EID"},
                {std::string("LAB\0", 4), "character of EID"}};
  for (const auto& row : kTable) {
    const Result<Eid> eid = eid_from(row.text);
    ASSERT_FALSE(eid) << row.text;
    EXPECT_EQ(eid.error(), (Error{Errc::kMalformed, row.what})) << row.text;
  }
}

TEST(Eid, TextOfAHostilePeersEidIsPrintable) {
  Eid eid;
  const std::string_view bytes = "A\n\x80\x7f\"B";
  std::copy(bytes.begin(), bytes.end(), eid.bytes.begin());
  EXPECT_EQ(to_string(eid), "A???\"B");
  EXPECT_EQ(to_string(Eid{}), "");
}

}  // namespace fairlead::wire::test
