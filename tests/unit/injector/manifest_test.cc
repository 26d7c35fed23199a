// What a file of manifests may contain.
#include "injector/manifest.h"

#include <gtest/gtest.h>

#include <string>

namespace fairlead::injector {
namespace {

// yaml-cpp would make documents of them without end.
class MisplacedTest : public testing::TestWithParam<const char*> {};

TEST_P(MisplacedTest, IsNoYaml) {
  const auto read = parse_manifest(GetParam());
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().find("not valid YAML: nothing can begin here"), std::string::npos)
      << read.error();
}

INSTANTIATE_TEST_SUITE_P(Each, MisplacedTest,
                         testing::Values(",", "kind: Pod\n---\n,\n", "&.,..", ",a & :aa*a]\n"));

TEST(ManifestTest, DocumentsMayBeEmpty) {
  const auto read = parse_manifest("---\n---\nkind: Pod\n---\n");
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(read->documents.size(), 3U);
  EXPECT_EQ(read->documents[1]["kind"], "Pod");
}

}  // namespace
}  // namespace fairlead::injector
