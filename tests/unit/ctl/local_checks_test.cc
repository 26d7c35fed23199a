#include "ctl/local_checks.h"

#include <gtest/gtest.h>
#include <linux/capability.h>

#include <limits>
#include <map>

#include "own_folder.h"

namespace fairlead::ctl {
namespace {

using Status = Check::Status;

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

class LocalChecks : public testing::Test {
 protected:
  LocalChecks() {
    host_.memlock_bytes = kNoLimit;
    host_.descriptors_max = 1 << 20;
    host_.verbs_devices = {"uverbs0"};
    host_.cgroup2_mount = "/sys/fs/cgroup";
    host_.effective_capabilities = std::uint64_t{1} << CAP_SYS_ADMIN;
    host_.kernel_release = "6.1.0-18-amd64";
  }

  Check check(const std::string& name) {
    for (const Check& one : local_checks(host_, proxy_))
      if (one.name == name) {
        EXPECT_EQ(one.fix.empty(), one.status == Status::kOk) << name;
        return one;
      }
    ADD_FAILURE() << "no check " << name;
    return {};
  }
  Status status(const std::string& name) { return check(name).status; }
  std::string finding(const std::string& name) { return check(name).finding; }

  HostFacts host_;
  ProxyFacts proxy_;
};

TEST_F(LocalChecks, GoodHostPassesAll) {
  EXPECT_EQ(worst_of(local_checks(host_, proxy_)), Status::kOk);
}

TEST_F(LocalChecks, KernelMustBeAbleToWriteTheOption) {
  for (const auto& [expected, releases] : std::map<Status, std::vector<const char*>>{
           {Status::kOk, {"5.10.0", "5.15.0-91-generic", "6.1.0", "10.0"}},
           {Status::kFail, {"5.9.16", "4.19.0"}},
           {Status::kWarn, {"", "six", "6", "6.x"}}})
    for (const char* release : releases) {
      host_.kernel_release = release;
      EXPECT_EQ(status("kernel"), expected) << release;
    }
}

TEST_F(LocalChecks, FewDescriptorsAreAWarning) {
  host_.descriptors_max = 1024;
  EXPECT_EQ(status("nofile"), Status::kWarn);
  host_.descriptors_max = kNoLimit;
  EXPECT_EQ(status("nofile"), Status::kOk);
}

TEST_F(LocalChecks, LittleLockedMemoryMattersOnlyWithARealDevice) {
  host_.memlock_bytes = 8 << 20;
  EXPECT_EQ(status("memlock"), Status::kWarn);
  host_.verbs_devices.clear();
  EXPECT_EQ(status("memlock"), Status::kOk);
  host_.verbs_devices = {"uverbs0"};
  proxy_.uses_verbs = false;
  EXPECT_EQ(status("memlock"), Status::kOk);
  proxy_.uses_verbs = true;
  host_.effective_capabilities |= std::uint64_t{1} << CAP_IPC_LOCK;
  EXPECT_EQ(status("memlock"), Status::kOk);
}

TEST_F(LocalChecks, MissingRdmaDeviceIsAWarningIfOneIsWanted) {
  host_.verbs_devices.clear();
  EXPECT_EQ(status("infiniband"), Status::kWarn);
  proxy_.uses_verbs = false;
  EXPECT_EQ(status("infiniband"), Status::kOk);
}

TEST_F(LocalChecks, EbpfNeedsCapabilitiesUnlessTheProgramIsThere) {
  host_.effective_capabilities = std::uint64_t{1} << CAP_BPF;
  EXPECT_EQ(status("bpf"), Status::kWarn);
  host_.effective_capabilities |= std::uint64_t{1} << CAP_NET_ADMIN;
  EXPECT_EQ(status("bpf"), Status::kOk);
  host_.effective_capabilities = 0;
  host_.cgroup2_mount = "";
  EXPECT_EQ(status("bpf"), Status::kWarn);
  proxy_.option_program_ok = true;
  EXPECT_EQ(status("bpf"), Status::kOk);
}

TEST_F(LocalChecks, FindingsHaveTheirValues) {
  EXPECT_EQ(finding("kernel"), "Linux 6.1.0-18-amd64");
  EXPECT_EQ(finding("nofile"), "1048576, enough for about 524288 connections");
  EXPECT_EQ(finding("infiniband"), "uverbs0");
  EXPECT_EQ(finding("memlock"), "no limit");
  EXPECT_EQ(finding("bpf"), "cgroup2 at /sys/fs/cgroup, eBPF permitted");
  host_.memlock_bytes = 8 << 20;
  EXPECT_EQ(finding("memlock"), "8.0Mi bytes");
  host_.verbs_devices.clear();
  EXPECT_EQ(finding("memlock"), "8.0Mi bytes; matters only with an RDMA device");
  host_.kernel_release = "six";
  EXPECT_EQ(finding("kernel"), "cannot read the version in \"six\"");
}

TEST(HostFactsReading, FindsDevicesAndDirectoriesWhereItIsTold) {
  const OwnFolder folder;
  for (const char* name : {"uverbs1", "uverbs0", "rdma_cm"}) folder.write(name, "");
  HostPaths paths;
  paths.infiniband = folder.path();
  const HostFacts facts = read_host_facts(paths);
  EXPECT_EQ(facts.verbs_devices, (std::vector<std::string>{"uverbs0", "uverbs1"}));
  EXPECT_GT(facts.descriptors_max, 0U);
  EXPECT_FALSE(facts.kernel_release.empty());
  paths.infiniband = folder.path() / "missing";
  EXPECT_TRUE(read_host_facts(paths).verbs_devices.empty());
}

TEST(HostFactsParsing, ReadsCapabilitiesAndMounts) {
  EXPECT_EQ(parse_effective_capabilities("Name:\tx\nCapEff:\t000000c000001000\nCapBnd:\t0\n"),
            0xc000001000U);
  EXPECT_EQ(parse_effective_capabilities("Name:\tx\n"), 0U);
  EXPECT_EQ(parse_cgroup2_mount("proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
            "/sys/fs/cgroup");
  EXPECT_EQ(parse_cgroup2_mount("cgroup2 /sys/fs/cgroup cgroup rw 0 0\n\nx\n"), "");
}

// As the kernel prints it: 10.0.0.9 talks to 10.0.0.5:80 itself (uid 1000), and to 10.0.0.6:81 by
// the proxy (uid 2201), which has accepted at port 4540.
constexpr const char* kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
    "   0: 00000000:11BC 00000000:0000 0A 00000000:00000000 00:00000000 00000000  2201 0 1\n"
    "   1: 0900000A:9C40 0500000A:0050 01 00000000:00000000 00:00000000 00000000  1000 0 2\n"
    "   2: 0900000A:9C41 0600000A:0051 01 00000000:00000000 00:00000000 00000000  1000 0 3\n"
    "   4: 0900000A:9C42 0600000A:0051 01 00000000:00000000 00:00000000 00000000  2201 0 5\n"
    "   5: 0100007F:9C43 0100007F:0051 01 00000000:00000000 00:00000000 00000000  1000 0 6\n"
    "   6: 0900000A:9C44 0700000A:0052 06 00000000:00000000 00:00000000 00000000  1000 0 7\n"
    "   7: short\n   8: a b zz d e f g h\n";
constexpr const char* kTable6 =
    "   3: 0000000000000000FFFF00000100007F:11BC 0000000000000000FFFF00000900000A:9C41 01 "
    "00000000:00000000 00:00000000 00000000  2201 0 4\n"
    "   9: 000080FE000000000000000001000000:9C45 000080FE000000000000000002000000:0053 01 "
    "00000000:00000000 00:00000000 00000000  1000 0 8\n";

TEST_F(LocalChecks, ConnectionsThatGoPastTheProxyAreSeen) {
  const std::vector<SocketLine> sockets = parse_sockets(kTable);
  ASSERT_EQ(sockets.size(), 6u);
  host_.sockets = sockets;
  for (const SocketLine& socket : parse_sockets(kTable6)) host_.sockets.push_back(socket);
  EXPECT_EQ(connections_past(host_.sockets, 2201),
            (std::vector<std::string>{"10.0.0.5:80", "[fe80::2]:83"}));
}

TEST_F(LocalChecks, ARedirectThatNothingComesByIsAWarningWhereConnectionsGoPast) {
  host_.sockets = parse_sockets(kTable);
  for (const Check& check : local_checks(host_, proxy_)) EXPECT_NE(check.name, "bypass");
  proxy_.redirect_ports = {4540};
  proxy_.user = 2201;
  EXPECT_EQ(status("bypass"), Status::kWarn);
  proxy_.redirected = 1;
  EXPECT_EQ(status("bypass"), Status::kOk);
  proxy_.redirected = 0;
  host_.sockets.clear();
  EXPECT_EQ(status("bypass"), Status::kOk);
}

}  // namespace
}  // namespace fairlead::ctl
