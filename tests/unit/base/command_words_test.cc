#include "base/command_words.h"
#include "base/kubernetes_names.h"

#include <gtest/gtest.h>

#include <vector>

namespace fairlead {
namespace {

std::string refused(std::vector<const char*> words) {
  words.insert(words.begin(), "program");
  return refused_word(static_cast<int>(words.size()), words.data());
}

TEST(CommandWords, NameTheOptionTheValueAndWhatIsAllowed) {
  EXPECT_EQ(refused({"-n", "shop", "--file", "j\u00fcrgen.yaml", ""}), "");
  EXPECT_EQ(
      refused({"check", "-n", "a\x1b[2J"}),
      "-n: \"a\\x1b[2J\" is not allowed, because it has a control character; allowed: at most "
      "32 KiB of UTF-8 without control characters");
  EXPECT_TRUE(refused({"--name=a\nb"}).starts_with("--name: \"--name=a\\x0ab\" is not allowed"));
  EXPECT_TRUE(refused({"a\nb"}).starts_with("argument 1: "));
}

TEST(CommandWords, MalformedUtf8IsRefused) {
  for (const char* word : {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"})
    EXPECT_NE(refused({word}).find("not UTF-8"), std::string::npos) << shown_word(word);
  for (const char* word : {"\u00a0", "\u20ac", "\U0001f600"}) EXPECT_EQ(refused({word}), "");
  for (const char* word : {"\u0085", "\u202e", "\u200b", "\ufeff", "\x7f"})
    EXPECT_NE(refused({word}).find("control"), std::string::npos) << shown_word(word);
}

TEST(CommandWords, LongOnesAreRefusedAndCut) {
  const std::string longest(kWordBytesMax, 'a'), longer = longest + 'a';
  EXPECT_EQ(refused({longest.c_str()}), "");
  const std::string why = refused({"-n", longer.c_str()});
  EXPECT_LT(why.size(), 300u);
  EXPECT_NE(why.find("...(cut)"), std::string::npos);
  EXPECT_LT(shown_message(longer).size(), 3000u);
}

TEST(CommandWords, NamesOfObjectsAreThoseOfKubernetes) {
  for (const char* name : {"a", "kube-system", "node-1.example.org", "0"})
    EXPECT_TRUE(kubernetes::is_object_name(name)) << name;
  for (const char* name :
       {"", ".", "..", "a..b", "a/b", "-a", "a-", "a.-b", "A", "a?b", "%2e", "a#"})
    EXPECT_FALSE(kubernetes::is_object_name(name)) << name;
  EXPECT_FALSE(kubernetes::is_object_name(std::string(254, 'a')));
  EXPECT_EQ(optional_name_trouble(""), "");
  EXPECT_TRUE(object_name_trouble("../x").starts_with("\"../x\" is not allowed; allowed: "));
}

TEST(CommandWords, OwnFoldersAreAbsolute) {
  for (const char* path : {"/run/fairlead-cni", "/a/", "/..a"})
    EXPECT_EQ(own_folder_trouble(path), "") << path;
  for (const char* path : {"", "/", "//", ".", "run", "../x", "/run/..", "/a/./b", "/a/../b"})
    EXPECT_NE(own_folder_trouble(path), "") << path;
  EXPECT_EQ(path_trouble("../x"), "");
  EXPECT_NE(path_trouble(std::string(5000, 'x')), "");
}

}  // namespace
}  // namespace fairlead
