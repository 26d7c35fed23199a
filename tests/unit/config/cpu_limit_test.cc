// Method: a folder replaces the root of a machine, with the files of /proc and /sys that each kind
// of container shows.
#include "config/cpu_limit.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace fairlead::config {
namespace {

class CpuQuota : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "fairlead-cpu-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void mount_v2(const std::string& group, const std::string& mounted = "/") {
    write("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:26 " + mounted +
                                      " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
    write("/proc/self/cgroup", "0::" + group + "\n");
  }
  void mount_v1(const std::string& group, const std::string& mounted) {
    write("/proc/self/mountinfo",
          "31 22 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n32 22 0:28 " + mounted +
              " /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
    write("/proc/self/cgroup", "5:cpuset:/\n4:cpu,cpuacct:" + group + "\n");
  }
  unsigned quota_of(const std::string& cpu_max) {
    write("/sys/fs/cgroup/cpu.max", cpu_max);
    return quota();
  }
  unsigned quota() const { return cpu_quota(root_); }

  std::string root_;
};

TEST_F(CpuQuota, NothingReadableIsNoLimit) { EXPECT_EQ(quota(), 0U); }

TEST_F(CpuQuota, RoundsAFractionUp) {
  mount_v2("/");
  EXPECT_EQ(quota_of("50000 100000\n"), 1U);
  EXPECT_EQ(quota_of("200000 100000\n"), 2U);
  EXPECT_EQ(quota_of("200001 100000\n"), 3U);
}

TEST_F(CpuQuota, MaxAndNonsenseAreNoLimit) {
  mount_v2("/");
  for (const char* text : {"max 100000\n", "", "100000\n", "-1 100000\n", "100000 0\n", "a b\n",
                           "9223372036854775807 1\n", "100000 100000 100000\n"}) {
    EXPECT_EQ(quota_of(text), 0U) << text;
  }
}

TEST_F(CpuQuota, TheTightestGroupOnTheWayUpCounts) {
  mount_v2("/pods/pod1/box");
  write("/sys/fs/cgroup/pods/pod1/box/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/pods/pod1/cpu.max", "300000 100000\n");
  write("/sys/fs/cgroup/pods/cpu.max", "800000 100000\n");
  EXPECT_EQ(quota(), 3U);
}

TEST_F(CpuQuota, AMountOfTheOwnGroupIsItsRootAndThatOfAnotherIsReadAtTheMount) {
  mount_v2("/pods/pod1/box", "/pods/pod1/box");
  EXPECT_EQ(quota_of("400000 100000\n"), 4U);
  mount_v2("/../elsewhere");
  EXPECT_EQ(quota_of("200000 100000\n"), 2U);
}

TEST_F(CpuQuota, VersionOneHasTwoFiles) {
  mount_v1("/docker/abc", "/docker/abc");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 2U);
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota(), 0U);
}

TEST_F(CpuQuota, AControllerNameMustMatchAsAWhole) {
  mount_v1("/x", "/");
  write("/proc/self/cgroup", "5:cpuset:/x\n3:cpuacct:/x\n");
  write("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "100000\n");
  write("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0U);
}

TEST(DefaultWorkers, AreAsManyAsTheQuotaAllowsOrLeaveHalfOfTheCpusToApplications) {
  EXPECT_EQ(default_workers(3, 8), 3U);
  EXPECT_EQ(default_workers(8, 3), 3U);
  EXPECT_GE(default_workers(), 1U);
  EXPECT_EQ(default_workers(0, 1), 1U);
  EXPECT_EQ(default_workers(0, 2), 1U);
  EXPECT_EQ(default_workers(0, 3), 2U);
  EXPECT_EQ(default_workers(0, 64), 32U);
  EXPECT_EQ(default_workers(0, 0), 1U);
}

}  // namespace
}  // namespace fairlead::config
