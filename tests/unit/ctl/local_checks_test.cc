#include "ctl/local_checks.h"

#include <gtest/gtest.h>
#include <linux/capability.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>

namespace fairlead::ctl {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

class LocalChecks : public testing::Test {
 protected:
  LocalChecks() {
    host_.memlock_bytes = kNoLimit;
    host_.descriptors_max = 1 << 20;
    host_.verbs_devices = {"uverbs0"};
    host_.cgroup2_mount = "/sys/fs/cgroup";
    host_.effective_capabilities = std::uint64_t{1} << CAP_SYS_ADMIN;
    host_.shm_directory = "/run/x";
    host_.kernel_release = "6.1.0-18-amd64";
  }

  Check::Status status(const std::string& name) {
    for (const Check& check : local_checks(host_, proxy_))
      if (check.name == name) {
        EXPECT_EQ(check.fix.empty(), check.status == Check::Status::kOk) << name;
        return check.status;
      }
    ADD_FAILURE() << "no check " << name;
    return Check::Status::kFail;
  }

  HostFacts host_;
  ProxyFacts proxy_;
};

TEST_F(LocalChecks, GoodHostPassesAll) {
  EXPECT_EQ(worst_of(local_checks(host_, proxy_)), Check::Status::kOk);
}

TEST_F(LocalChecks, KernelMustBeAbleToWriteTheOption) {
  for (const char* release : {"5.10.0", "5.15.0-91-generic", "6.1.0", "10.0"}) {
    host_.kernel_release = release;
    EXPECT_EQ(status("kernel"), Check::Status::kOk) << release;
  }
  for (const char* release : {"5.9.16", "4.19.0"}) {
    host_.kernel_release = release;
    EXPECT_EQ(status("kernel"), Check::Status::kFail) << release;
  }
  for (const char* release : {"", "six", "6", "6.x"}) {
    host_.kernel_release = release;
    EXPECT_EQ(status("kernel"), Check::Status::kWarn) << release;
  }
}

TEST_F(LocalChecks, FewDescriptorsAreAWarning) {
  host_.descriptors_max = 1024;
  EXPECT_EQ(status("nofile"), Check::Status::kWarn);
  host_.descriptors_max = kNoLimit;
  EXPECT_EQ(status("nofile"), Check::Status::kOk);
}

TEST_F(LocalChecks, LittleLockedMemoryMattersOnlyWithARealDevice) {
  host_.memlock_bytes = 8 << 20;
  EXPECT_EQ(status("memlock"), Check::Status::kWarn);
  host_.verbs_devices.clear();
  EXPECT_EQ(status("memlock"), Check::Status::kOk);
  host_.verbs_devices = {"uverbs0"};
  proxy_.uses_verbs = false;
  EXPECT_EQ(status("memlock"), Check::Status::kOk);
  proxy_.uses_verbs = true;
  host_.effective_capabilities |= std::uint64_t{1} << CAP_IPC_LOCK;
  EXPECT_EQ(status("memlock"), Check::Status::kOk);
}

TEST_F(LocalChecks, MissingRdmaDeviceIsAWarningIfOneIsWanted) {
  host_.verbs_devices.clear();
  EXPECT_EQ(status("infiniband"), Check::Status::kWarn);
  proxy_.uses_verbs = false;
  EXPECT_EQ(status("infiniband"), Check::Status::kOk);
}

TEST_F(LocalChecks, EbpfNeedsCapabilitiesUnlessTheProgramIsThere) {
  host_.effective_capabilities = std::uint64_t{1} << CAP_BPF;
  EXPECT_EQ(status("bpf"), Check::Status::kWarn);
  host_.effective_capabilities |= std::uint64_t{1} << CAP_NET_ADMIN;
  EXPECT_EQ(status("bpf"), Check::Status::kOk);
  host_.effective_capabilities = 0;
  host_.cgroup2_mount = "";
  EXPECT_EQ(status("bpf"), Check::Status::kWarn);
  proxy_.option_program_ok = true;
  EXPECT_EQ(status("bpf"), Check::Status::kOk);
}

TEST_F(LocalChecks, MissingDirectoryIsAWarningUnlessTheProxyHasItsDevices) {
  host_.shm_error = ENOENT;
  EXPECT_EQ(status("shm_directory"), Check::Status::kWarn);
  proxy_.devices_ok = true;
  EXPECT_EQ(status("shm_directory"), Check::Status::kOk);
}

TEST(HostFactsReading, FindsDevicesAndDirectoriesWhereItIsTold) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "fairlead-host-facts";
  std::filesystem::create_directories(folder);
  for (const char* name : {"uverbs1", "uverbs0", "rdma_cm"}) std::ofstream(folder / name) << "";
  HostPaths paths;
  paths.infiniband = folder;
  paths.shm_directory = folder / "missing";
  const HostFacts facts = read_host_facts(paths);
  EXPECT_EQ(facts.verbs_devices, (std::vector<std::string>{"uverbs0", "uverbs1"}));
  EXPECT_EQ(facts.shm_error, ENOENT);
  EXPECT_GT(facts.descriptors_max, 0U);
  EXPECT_FALSE(facts.kernel_release.empty());
  paths.infiniband = folder / "missing";
  paths.shm_directory = folder;
  EXPECT_TRUE(read_host_facts(paths).verbs_devices.empty());
  EXPECT_EQ(read_host_facts(paths).shm_error, 0);
  std::filesystem::remove_all(folder);
}

TEST(HostFactsParsing, ReadsCapabilitiesAndMounts) {
  EXPECT_EQ(parse_effective_capabilities("Name:\tx\nCapEff:\t000000c000001000\nCapBnd:\t0\n"),
            0xc000001000U);
  EXPECT_EQ(parse_effective_capabilities("Name:\tx\n"), 0U);
  EXPECT_EQ(parse_cgroup2_mount("proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
            "/sys/fs/cgroup");
  EXPECT_EQ(parse_cgroup2_mount("cgroup2 /sys/fs/cgroup cgroup rw 0 0\n\nx\n"), "");
}

}  // namespace
}  // namespace fairlead::ctl
