// Goal: a running container gets a device without losing the limits of its cgroup, and nothing
// outside of it is changed. Method: a process in its own mount namespace, a cgroup with a device
// program as runtimes write them, and /dev/full in place of the RNIC. Skipped without root.
#include "cni/node/nri/late_device.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "bpf/device_permission.h"
#include "cni/node/nri/access_delivery.h"

namespace fairlead::cni::node::nri {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kUser = 2201;
const UverbsDevice kDevice{"mlx5_0", 0, 1, 7};  // /dev/full

bpf_insn one(std::uint8_t code, unsigned destination, unsigned source, std::int16_t offset,
             std::int32_t value) {
  bpf_insn made{};
  made.code = code;
  made.dst_reg = destination & 0xfU;
  made.src_reg = source & 0xfU;
  made.off = offset;
  made.imm = value;
  return made;
}

// Permits /dev/null, 1:3, alone.
std::vector<bpf_insn> runtimes_program() {
  return {one(BPF_LDX | BPF_MEM | BPF_W, 3, 1, 4, 0),   one(BPF_JMP | BPF_JNE | BPF_K, 3, 0, 4, 1),
          one(BPF_LDX | BPF_MEM | BPF_W, 3, 1, 8, 0),   one(BPF_JMP | BPF_JNE | BPF_K, 3, 0, 2, 3),
          one(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1), one(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
          one(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0), one(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)};
}

TEST(DevicePermission, KnowsItsOwnPrograms) {
  const auto prologue = bpf::device_prologue({231, 192});
  auto program = prologue;
  const auto rest = runtimes_program();
  program.insert(program.end(), rest.begin(), rest.end());
  EXPECT_TRUE(bpf::begins_with(program, prologue));
  EXPECT_FALSE(bpf::begins_with(program, bpf::device_prologue({231, 193})));
  EXPECT_FALSE(bpf::begins_with(rest, prologue));
  EXPECT_FALSE(bpf::begins_with({}, prologue));
}

TEST(DevicePermission, CopiesNothingThatRefersToMore) {
  EXPECT_TRUE(bpf::can_be_copied(runtimes_program()));
  EXPECT_FALSE(bpf::can_be_copied({one(BPF_JMP | BPF_CALL, 0, 0, 0, 1)}));
  EXPECT_FALSE(
      bpf::can_be_copied({one(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, 5), {}}));
}

std::string cgroup2_root() {
  std::ifstream mounts("/proc/mounts");
  for (std::string device, path, type, rest; mounts >> device >> path >> type;) {
    std::getline(mounts, rest);
    if (type == "cgroup2") return path;
  }
  return "";
}

// A pod with one container: a process of the sidecar's user with its own /dev, which opens a device
// on request.
class LateDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = cgroup2_root();
    if (::geteuid() != 0 || root_.empty()) GTEST_SKIP() << "needs root and a cgroup v2 hierarchy";
    kube_ = fs::path(root_) / ("kubelate" + std::to_string(::getpid()));
    pod_ = kube_ / ("pod" + uid_);
    container_ = pod_ / ("cri-containerd-" + id_ + ".scope");
    std::error_code error;
    if (!fs::create_directories(container_, error)) GTEST_SKIP() << "cgroup: " << error.message();
    ASSERT_EQ(::pipe2(orders_, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(answers_, O_CLOEXEC), 0);
    process_ = ::fork();
    if (process_ == 0) run_container();
    std::ofstream(container_ / "cgroup.procs") << process_;
    char ready = 0;
    ASSERT_EQ(::read(answers_[0], &ready, 1), 1);
    if (ready == 'n') GTEST_SKIP() << "no mount namespaces here";
    attach();
  }
  void TearDown() override {
    if (process_ > 0) {
      (void)::kill(process_, SIGKILL);
      (void)::waitpid(process_, nullptr, 0);
    }
    for (const fs::path& folder : {container_, pod_, kube_}) {
      std::error_code ignored;
      fs::remove(folder, ignored);
    }
  }

  void attach() {
    const auto text = runtimes_program();
    const int program = bpf_prog_load(BPF_PROG_TYPE_CGROUP_DEVICE, "runtime", "Proprietary",
                                      text.data(), text.size(), nullptr);
    if (program < 0) GTEST_SKIP() << "no device programs here";
    const int cgroup = ::open(container_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(bpf_prog_attach(program, cgroup, BPF_CGROUP_DEVICE, BPF_F_ALLOW_MULTI), 0);
    ::close(cgroup);
    ::close(program);
  }

  // "0" and the errno of opening a path in the container.
  int try_open(const char* path) {
    char order[64] = {};
    std::snprintf(order, sizeof order, "%s", path);
    EXPECT_EQ(::write(orders_[1], order, sizeof order), static_cast<ssize_t>(sizeof order));
    int answer = -1;
    EXPECT_EQ(::read(answers_[0], &answer, sizeof answer), static_cast<ssize_t>(sizeof answer));
    return answer;
  }

  int try_device() { return try_open("/dev/infiniband/uverbs0"); }
  // As this process sees the container's.
  fs::path dev() const { return "/proc/" + std::to_string(process_) + "/root/dev"; }
  LateDevices wanted() const { return {uid_, id_, process_, kUser, {kDevice}, std::nullopt}; }
  Result<void> give(const LateDevices& devices) { return give_late(devices, {"/proc", root_}); }
  void expect_given(const LateDevices& devices) {
    const auto given = give(devices);
    EXPECT_TRUE(given) << to_string(given.error());
    EXPECT_EQ(try_device(), 0);
  }

  std::string root_;
  fs::path kube_, pod_, container_;
  std::string id_ = std::string(64, 'c');
  // Of this process alone: the search covers the pods of every test on this machine.
  std::string uid_ = "late-" + std::to_string(::getpid());
  pid_t process_ = -1;
  int orders_[2] = {-1, -1}, answers_[2] = {-1, -1};

 private:
  [[noreturn]] void run_container() {
    const bool made = ::unshare(CLONE_NEWNS) == 0 &&
                      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                      ::mount("dev", "/dev", "tmpfs", MS_NOSUID, "mode=755") == 0 &&
                      ::mknod("/dev/null", S_IFCHR | 0666, 0x103) == 0 &&
                      ::mknod("/dev/zero", S_IFCHR | 0666, 0x105) == 0 &&
                      ::chmod("/dev/null", 0666) == 0 && ::chmod("/dev/zero", 0666) == 0 &&
                      ::setresgid(kUser, kUser, kUser) == 0 &&
                      ::setresuid(kUser, kUser, kUser) == 0;
    (void)!::write(answers_[1], made ? "y" : "n", 1);
    char order[64];
    while (::read(orders_[0], order, sizeof order) > 0) {
      const int opened = ::open(order, O_RDWR | O_CLOEXEC);
      const int answer = opened < 0 ? errno : 0;
      if (opened >= 0) ::close(opened);
      (void)!::write(answers_[1], &answer, sizeof answer);
    }
    ::_exit(0);
  }
};

TEST_F(LateDeviceTest, OpensTheDeviceAndNoOther) {
  ASSERT_EQ(try_open("/dev/null"), 0);
  ASSERT_EQ(try_open("/dev/zero"), EPERM);
  ASSERT_EQ(try_device(), ENOENT);
  for (int time = 0; time < 2; ++time) {
    expect_given(wanted());
    EXPECT_EQ(try_open("/dev/null"), 0);
    EXPECT_EQ(try_open("/dev/zero"), EPERM);
  }
  struct stat node {};
  ASSERT_EQ(::stat((dev() / "infiniband/uverbs0").c_str(), &node), 0);
  EXPECT_EQ(node.st_uid, kUser);
  EXPECT_EQ(node.st_mode & 07777, 0600u);
  EXPECT_EQ(std::distance(fs::directory_iterator(dev() / "infiniband"), {}), 1);
}

TEST_F(LateDeviceTest, TouchesNoOtherProcess) {
  LateDevices other = wanted();
  other.container_id = std::string(64, 'd');
  EXPECT_EQ(give(other).error().code, Errc::kNotFound);
  other = wanted();
  other.owner = kUser + 1;
  EXPECT_EQ(give(other).error().code, Errc::kWrongState);
  other = wanted();
  other.process = ::getpid();
  EXPECT_EQ(give(other).error().code, Errc::kWrongState);
  EXPECT_EQ(try_device(), ENOENT);
}

TEST_F(LateDeviceTest, FindsTheProcessThatTheRuntimeDidNotName) {
  LateDevices devices = wanted();
  devices.process = 0;
  expect_given(devices);
}

// Links of the container must not lead out of it.
TEST_F(LateDeviceTest, FollowsNoLinkOfTheContainer) {
  const fs::path outside = fs::temp_directory_path() / ("late" + std::to_string(::getpid()));
  fs::create_directory(outside);
  fs::create_directory_symlink(outside, dev() / "infiniband");
  EXPECT_FALSE(give(wanted()));
  EXPECT_TRUE(fs::is_empty(outside));
  fs::remove(outside);
}

// A volume may be mounted there, and another container could use a node in it.
TEST_F(LateDeviceTest, MakesNothingInAMountOfThePod) {
  const fs::path folder = dev() / "infiniband";
  fs::create_directory(folder);
  const pid_t mounter = ::fork();
  if (mounter == 0) {
    const std::string place = "/proc/" + std::to_string(process_) + "/ns/mnt";
    const int space = ::open(place.c_str(), O_RDONLY | O_CLOEXEC);
    ::_exit(::setns(space, CLONE_NEWNS) == 0 &&
                    ::mount("volume", "/dev/infiniband", "tmpfs", 0, "mode=755") == 0
                ? 0
                : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(mounter, &status, 0), mounter);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(give(wanted()).error().system, EXDEV);
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(LateDeviceTest, MakesNothingWhereOthersCanWrite) {
  ASSERT_EQ(::chmod(dev().c_str(), 0777), 0);
  EXPECT_EQ(give(wanted()).error().code, Errc::kWrongState);
  EXPECT_FALSE(fs::exists(dev() / "infiniband"));
  ASSERT_EQ(::chmod(dev().c_str(), 0755), 0);
  fs::create_directory(dev() / "infiniband");
  ASSERT_EQ(::chown((dev() / "infiniband").c_str(), kUser, kUser), 0);
  EXPECT_EQ(give(wanted()).error().code, Errc::kWrongState);
  EXPECT_TRUE(fs::is_empty(dev() / "infiniband"));
}

TEST_F(LateDeviceTest, LeavesANodeOfSomebodyElse) {
  const fs::path folder = dev() / "infiniband";
  fs::create_directory(folder);
  std::ofstream(folder / "uverbs0") << "x";
  EXPECT_EQ(give(wanted()).error().code, Errc::kWrongState);
  EXPECT_EQ(fs::file_size(folder / "uverbs0"), 1u);
}

// The agent may connect while the runtime starts the container.
TEST_F(LateDeviceTest, IsTriedAgainUntilTheContainerHasStarted) {
  ASSERT_EQ(::chmod(dev().c_str(), 0777), 0);
  AccessDelivery delivery("/nonexistent", {"/proc", root_});
  ASSERT_TRUE(delivery.start());
  const auto& counts = delivery.counts();
  const auto wait_for = [](const std::atomic<std::uint64_t>& count) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (count == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return count.load();
  };
  delivery.add({"pod", "shop/web", RnicAccess::kGranted, wanted()});
  EXPECT_EQ(wait_for(counts.late_retries), 1u);
  EXPECT_EQ(counts.late_failed, 0u);
  ASSERT_EQ(::chmod(dev().c_str(), 0755), 0);
  EXPECT_EQ(wait_for(counts.late_given), 1u);
  EXPECT_EQ(try_device(), 0);
}

TEST_F(LateDeviceTest, RaisesNoLimitThatItMayNotRaise) {
  LateDevices devices = wanted();
  devices.memlock_bytes = RLIM_INFINITY;
  expect_given(devices);
}

}  // namespace
}  // namespace fairlead::cni::node::nri
