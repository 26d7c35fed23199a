// What a file of manifests may contain.
#include "injector/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fairlead::injector {
namespace {

// yaml-cpp would make documents of them without end.
TEST(ManifestTest, MisplacedTokensAreNoYaml) {
  for (const char* text : {",", "kind: Pod\n---\n,\n", "&.,..", ",a & :aa*a]\n"}) {
    const auto read = parse_manifest(text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error(), testing::HasSubstr("not valid YAML: nothing can begin here"));
  }
}

TEST(ManifestTest, DocumentsMayBeEmpty) {
  const auto read = parse_manifest("---\n---\nkind: Pod\n---\n");
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(read->documents.size(), 3U);
  EXPECT_EQ(read->documents[1]["kind"], "Pod");
}

}  // namespace
}  // namespace fairlead::injector
