// Goal: a file is replaced as a whole, and reads have a limit.
#include "base/linux/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>

namespace fairlead::cni {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  Files() {
    std::string name = fs::temp_directory_path() / "fairlead-files-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~Files() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_F(Files, ReplacesAFileAndLeavesNoOther) {
  ASSERT_TRUE(replace_file(folder_ / "a", folder_ / ".new", "first", 0600));
  ASSERT_TRUE(replace_file(folder_ / "a", folder_ / ".new", "second\nline", 0755));
  EXPECT_EQ(read_file(folder_ / "a", 100).value(), "second\nline");
  EXPECT_EQ(first_line(folder_ / "a"), "second");
  EXPECT_EQ(names_in(folder_), std::vector<std::string>{"a"});
  struct stat status {};
  ASSERT_EQ(::stat((folder_ / "a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0755U);
}

TEST_F(Files, ReadsUpToTheLimit) {
  ASSERT_TRUE(replace_file(folder_ / "a", folder_ / ".new", "12345", 0600));
  EXPECT_EQ(read_file(folder_ / "a", 5).value(), "12345");
  EXPECT_EQ(read_file(folder_ / "a", 4).error().system, EFBIG);
}

TEST_F(Files, FollowsNoLinkWhenToldSo) {
  ASSERT_TRUE(replace_file(folder_ / "a", folder_ / ".new", "x", 0600));
  fs::create_symlink("a", folder_ / "link");
  EXPECT_TRUE(read_file(folder_ / "link", 5));
  EXPECT_EQ(read_file(folder_ / "link", 5, O_NOFOLLOW).error().system, ELOOP);
}

TEST_F(Files, TakesWhatIsNotThereForEmpty) {
  EXPECT_TRUE(names_in(folder_ / "none").empty());
  EXPECT_EQ(first_line(folder_ / "none"), "");
  EXPECT_EQ(read_file(folder_ / "none", 5).error().system, ENOENT);
}

}  // namespace
}  // namespace fairlead::cni
