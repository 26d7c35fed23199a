#include "wire/eid.h"

#include <gtest/gtest.h>

namespace fairlead::wire::test {

TEST(Eid, PadsWithBlanks) {
  const Result<Eid> eid = eid_from("LAB-UEID.1");
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

struct Refused {
  std::string text;
  const char* what;
};

class EidRefuses : public testing::TestWithParam<Refused> {};

TEST_P(EidRefuses, WithAReason) {
  const Result<Eid> eid = eid_from(GetParam().text);
  ASSERT_FALSE(eid);
  EXPECT_EQ(eid.error(), (Error{Errc::kMalformed, GetParam().what}));
}

INSTANTIATE_TEST_SUITE_P(Table, EidRefuses,
                         testing::Values(Refused{"", "empty EID"},
                                         Refused{std::string(33, 'A'), "EID longer than 32"},
                                         Refused{".LAB", "first character of EID"},
                                         Refused{"-LAB", "first character of EID"},
                                         Refused{" LAB", "first character of EID"},
                                         Refused{"LAB UEID", "character of EID"},
                                         Refused{"LAB ", "character of EID"},
                                         Refused{"LAB_UEID", "character of EID"},
                                         Refused{"LAB\xc3\x84", "character of EID"},
                                         Refused{std::string("LAB\0", 4), "character of EID"}));

TEST(Eid, TextOfAHostilePeersEidIsPrintable) {
  Eid eid;
  const std::string_view bytes = "A\n\x80\x7f\"B";
  std::copy(bytes.begin(), bytes.end(), eid.bytes.begin());
  EXPECT_EQ(to_string(eid), "A???\"B");
}

TEST(Eid, BlankOneHasEmptyText) { EXPECT_EQ(to_string(Eid{}), ""); }

}  // namespace fairlead::wire::test
