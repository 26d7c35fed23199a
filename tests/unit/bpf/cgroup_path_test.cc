#include "bpf/cgroup_path.h"

#include <gtest/gtest.h>

namespace fairlead::bpf {
namespace {

constexpr std::string_view kUnifiedMount =
    "22 1 0:20 / /sys rw,nosuid - sysfs sysfs rw\n"
    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw,nsdelegate\n";

constexpr std::string_view kHybridMounts =
    "25 22 0:21 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
    "26 25 0:22 / /sys/fs/cgroup/memory rw shared:5 - cgroup cgroup rw,memory\n"
    "27 25 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

std::string found(std::string_view self_cgroup, std::string_view mountinfo) {
  auto path = own_cgroup_path(self_cgroup, mountinfo);
  return path ? *path : std::string("error: ") + path.error().what;
}

TEST(CgroupPath, IsBelowTheUnifiedMount) {
  EXPECT_EQ(found("0::/system.slice/fairlead.service\n", kUnifiedMount),
            "/sys/fs/cgroup/system.slice/fairlead.service");
  EXPECT_EQ(found("0::/\n", kUnifiedMount), "/sys/fs/cgroup");
  EXPECT_EQ(found("0::/no-newline", kUnifiedMount), "/sys/fs/cgroup/no-newline");
}

TEST(CgroupPath, IgnoresVersionOneOnHybridHosts) {
  EXPECT_EQ(found("8:memory:/wrong\n1:name=systemd:/wrong\n0::/right\n", kHybridMounts),
            "/sys/fs/cgroup/unified/right");
}

TEST(CgroupPath, IsRelativeToWhatTheMountShows) {
  constexpr std::string_view kContainer =
      "30 22 0:26 /kubepods/pod1/ctr /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
  EXPECT_EQ(found("0::/kubepods/pod1/ctr\n", kContainer), "/sys/fs/cgroup");
  EXPECT_EQ(found("0::/kubepods/pod1/ctr/inner\n", kContainer), "/sys/fs/cgroup/inner");
}

TEST(CgroupPath, TakesTheMountThatShowsTheCgroup) {
  constexpr std::string_view kTwo =
      "30 22 0:26 /other /mnt/other rw - cgroup2 cgroup rw\n"
      "31 22 0:26 /mine /mnt/mine rw - cgroup2 cgroup rw\n";
  EXPECT_EQ(found("0::/mine/deeper\n", kTwo), "/mnt/mine/deeper");
}

TEST(CgroupPath, DoesNotMistakeASiblingForAParent) {
  constexpr std::string_view kSibling = "30 22 0:26 /pod1 /mnt rw - cgroup2 cgroup rw\n";
  auto path = own_cgroup_path("0::/pod10\n", kSibling);
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().code, Errc::kUnsupported);
}

TEST(CgroupPath, SaysThatTheCgroupLiesOutsideOfTheNamespace) {
  auto path = own_cgroup_path("0::/../elsewhere\n", kUnifiedMount);
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().code, Errc::kUnsupported);
}

TEST(CgroupPath, ReadsEscapedBlanks) {
  EXPECT_EQ(found("0::/x\n", "30 22 0:26 / /mnt/two\\040words\\134 rw - cgroup2 cgroup rw\n"),
            "/mnt/two words\\/x");
}

TEST(CgroupPath, SaysThatThereIsNoVersionTwo) {
  constexpr std::string_view kVersionOne =
      "26 25 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
  auto unmounted = own_cgroup_path("0::/\n", kVersionOne);
  ASSERT_FALSE(unmounted);
  EXPECT_EQ(unmounted.error().code, Errc::kNotFound);
  auto unlisted = own_cgroup_path("8:memory:/\n", kUnifiedMount);
  ASSERT_FALSE(unlisted);
  EXPECT_EQ(unlisted.error().code, Errc::kNotFound);
}

TEST(CgroupPath, SurvivesTornMountTables) {
  for (const char* text : {"", "\n", "-", "30", "30 22 0:26 / /mnt", "30 22 0:26 / /mnt rw -",
                           "30 22 0:26 / /mnt\\ rw - cgroup\n", "  \n \n"})
    EXPECT_FALSE(own_cgroup_path("0::/\n", text)) << text;
}

}  // namespace
}  // namespace fairlead::bpf
