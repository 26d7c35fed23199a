#include "config/document.h"

#include <gtest/gtest.h>

namespace fairlead::config {
namespace {

std::string error_of(std::string_view text) {
  const tl::expected<Node, ConfigError> node = parse_document(text, "t");
  return node ? "no error" : to_string(node.error());
}

TEST(Document, KeepsOrderPositionsAndRepeatedKeys) {
  const auto root = parse_document("b: 1\na:\n  - x\n  - \"7\"\nb: ~\n", "t");
  ASSERT_TRUE(root.has_value());
  ASSERT_EQ(root->kind, Node::Kind::kMapping);
  ASSERT_EQ(root->keys.size(), 3U);
  EXPECT_EQ(root->keys[0].text, "b");
  EXPECT_EQ(root->keys[2].text, "b");
  EXPECT_EQ(root->keys[2].line, 5);
  EXPECT_EQ(root->items[0].text, "1");
  EXPECT_EQ(root->items[0].column, 4);
  EXPECT_EQ(root->items[2].kind, Node::Kind::kNull);
  const Node& list = root->items[1];
  ASSERT_EQ(list.kind, Node::Kind::kSequence);
  ASSERT_EQ(list.items.size(), 2U);
  EXPECT_FALSE(list.items[0].quoted);
  EXPECT_TRUE(list.items[1].quoted);
  EXPECT_EQ(list.items[1].line, 4);
}

TEST(Document, NothingAndCommentsOnlyAreNull) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n", "\xef\xbb\xbf"}) {
    const auto root = parse_document(text, "t");
    ASSERT_TRUE(root.has_value()) << text;
    EXPECT_EQ(root->kind, Node::Kind::kNull) << text;
  }
}

TEST(Document, TakesAByteOrderMarkAndWindowsLineEnds) {
  const auto root = parse_document(
      "\xef\xbb\xbf"
      "a: 1\r\nb: 2\r\n",
      "t");
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->keys[0].text, "a");
  EXPECT_EQ(root->items[0].text, "1");
  EXPECT_EQ(root->keys[1].line, 2);
}

TEST(Document, RefusesWhatIsNotSupported) {
  const std::string_view anchor =
      "t:1:4: an anchor (&name) is not supported; allowed: values without anchors";
  const struct {
    std::string_view text, error;
  } rows[] = {
      {"a: &x 1\n", anchor},
      {"a: &x [1]\nb: *x\n", anchor},
      {"a: !!binary aGk=\n",
       "t:1:4: the tag \"tag:yaml.org,2002:binary\" is not supported; allowed: values without "
       "tags"},
      {"a: 1\n---\nb: 2\n", "t: more than one document; allowed: one, without \"---\""},
      {"? [a]\n: 1\n", "t:1:3: a key is a list or a mapping; allowed: a key made of plain text"},
      {"~: 1\n", "t:1:1: a key is missing; allowed: a key made of plain text"}};
  for (const auto& row : rows) EXPECT_EQ(error_of(row.text), row.error);
}

TEST(Document, NamesThePlaceOfBadCharacters) {
  EXPECT_EQ(error_of("a: 1\nb: \xff\n"), "t:2:4: not UTF-8 text; allowed: UTF-8");
  EXPECT_EQ(error_of("a: \xc3\xa4\xe2\x82\xac\xff\n"), "t:1:6: not UTF-8 text; allowed: UTF-8");
  // yaml-cpp would take this for the end of the file and drop b.
  EXPECT_EQ(error_of("a: 1\n\x04\nb: 2\n"),
            "t:2:1: the control character \"\\x04\"; allowed: printable characters, tab and end of "
            "line");
  EXPECT_NE(error_of(std::string_view("a: 1\0", 5)), "no error");
  EXPECT_NE(error_of(std::string_view("\xff\xfe"
                                      "a\0:\0 \0"
                                      "1\0",
                                      10)),
            "no error");
}

TEST(Document, RefusesEveryFormOfBrokenUtf8) {
  for (const char* text :
       {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xf0\x9f\x98", "\xc3("})
    EXPECT_EQ(error_of(text), "t:1:1: not UTF-8 text; allowed: UTF-8");
  EXPECT_TRUE(parse_document("a: \xf0\x9f\x98\x80 \xef\xbf\xbd", "t").has_value());
}

TEST(Document, NamesThePlaceOfASyntaxErrorAndHintsAtQuotesForAnIpv6Address) {
  EXPECT_EQ(error_of("a: 1\n b: 2\n").substr(0, 24), "t:2:3: not valid YAML: i");
  EXPECT_EQ(error_of("a: [1, 2\n").substr(0, 22), "t:2:1: not valid YAML:");
  const std::string error = error_of("listeners:\n  - listen: [::1]:4540\n");
  EXPECT_NE(error.find("t:2:"), std::string::npos) << error;
  EXPECT_NE(error.find("in quotes, \"[::1]:4540\""), std::string::npos) << error;
}

}  // namespace
}  // namespace fairlead::config
