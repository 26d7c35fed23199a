// The redirect programs on the running kernel, in a cgroup and two network namespaces of this
// process, "pod" and "network"; the test is application, sidecar and client at once.
#pragma once

#include <bpf/bpf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/linux/handle.h"
#include "bpf/cgroup_path.h"
#include "bpf/held_connection.h"
#include "bpf/option_program.h"
#include "bpf/redirect_programs.h"
#include "bpf/tcp_option.h"

namespace fairlead::bpf {

inline constexpr uid_t kSidecarUid = 61235;  // not in use elsewhere
inline constexpr std::chrono::seconds kStuck{
    60};  // a wait that long fails the test instead of hanging it
inline constexpr std::uint16_t kOutbound = 15001;
inline constexpr std::uint16_t kInbound = 15006;

inline SocketAddress address(const std::string& text) {
  const Result<SocketAddress> parsed = SocketAddress::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed.value_or(SocketAddress());
}
inline Cidr cidr(const char* text) { return Cidr::parse(text).value_or(Cidr()); }

using AddressCall = int (*)(int, sockaddr*, socklen_t*);
inline std::string ask(const FileDescriptor& socket, AddressCall call) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (call(socket.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    return std::strerror(errno);
  return to_string(SocketAddress::from(storage, length).value_or(SocketAddress()));
}
inline std::string peer_of(const FileDescriptor& socket) { return ask(socket, getpeername); }
inline std::string local_of(const FileDescriptor& socket) { return ask(socket, getsockname); }

// As the sidecar's user, for the calling thread only.
class AsSidecar {
 public:
  AsSidecar() { EXPECT_EQ(::syscall(SYS_setresuid, kSidecarUid, -1, -1), 0); }
  ~AsSidecar() { EXPECT_EQ(::syscall(SYS_setresuid, 0, -1, -1), 0); }
};

// The sockets of this process belong to a cgroup of their own meanwhile.
class OwnCgroup {
 public:
  OwnCgroup() {
    const Result<std::string> own = own_cgroup_path();
    if (!own) return;
    home_ = *own;
    path_ = home_ + "/fairlead-redirect-" + std::to_string(::getpid());
    if (::mkdir(path_.c_str(), 0755) != 0 || !move_to(path_)) path_.clear();
  }
  ~OwnCgroup() {
    if (path_.empty()) return;
    EXPECT_TRUE(move_to(home_));
    EXPECT_EQ(::rmdir(path_.c_str()), 0) << std::strerror(errno);
  }
  const std::string& path() const { return path_; }  // empty where none can be made

 private:
  static bool move_to(const std::string& path) {
    std::ofstream procs(path + "/cgroup.procs");
    procs << ::getpid() << std::flush;
    return procs.good();
  }
  std::string home_, path_;
};

// The thread is in the namespace of the pod. Its eth0 leads to the other namespace.
class TwoNamespaces {
 public:
  TwoNamespaces() : home_(here()) {
    if (::unshare(CLONE_NEWNET) != 0) return;
    network_ = here();
    EXPECT_EQ(::unshare(CLONE_NEWNET), 0);
    pod_ = here();
    const std::string network = "/proc/self/fd/" + std::to_string(network_.get());
    ::fcntl(network_.get(), F_SETFD, 0);  // for the shell
    run("ip link set lo up && ip link add eth0 type veth peer name peer0 && "
        "ip link set peer0 netns /proc/$$/fd/" +
        std::to_string(network_.get()) +
        " && ip addr add 10.9.0.2/24 dev eth0 && ip addr add fd09::2/64 dev eth0 nodad && "
        "ip link set eth0 up && ip route add prohibit 10.9.0.128/25 && "
        "ip route add prohibit 192.0.2.0/24 && "
        "nsenter --net=/proc/$$/fd/" +
        std::to_string(network_.get()) +
        " sh -c 'ip link set lo up; ip addr add 10.9.0.1/24 dev peer0; "
        "ip addr add fd09::1/64 dev peer0 nodad; ip link set peer0 up' && "
        "timeout 60 sh -c 'until ip -6 route get fd09::1 | grep -q eth0; do :; done'");
  }
  ~TwoNamespaces() { EXPECT_EQ(::setns(home_.get(), CLONE_NEWNET), 0) << std::strerror(errno); }
  bool made() const { return static_cast<bool>(pod_); }

  // A socket of the other namespace.
  FileDescriptor client_socket(sa_family_t family) {
    EXPECT_EQ(::setns(network_.get(), CLONE_NEWNET), 0);
    FileDescriptor made(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::setns(pod_.get(), CLONE_NEWNET), 0);
    return made;
  }
  static void run(const std::string& command) {
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }

 private:
  static FileDescriptor here() {
    return FileDescriptor(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  }
  FileDescriptor home_, network_, pod_;
};

enum class Holds { kNo, kYes };

inline FileDescriptor listen_on(const std::string& where, const OptionProgram* option = nullptr,
                                bool frames = false, int backlog = 64, Holds holds = Holds::kNo) {
  const SocketAddress at = address(where);
  FileDescriptor listener(::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  const timeval limit{.tv_sec = kStuck.count(), .tv_usec = 0};  // of accept(2)
  ::setsockopt(listener.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  EXPECT_EQ(::bind(listener.get(), at.data(), at.size()), 0) << std::strerror(errno);
  if (holds == Holds::kYes) let_hold(listener.get());
  if (frames) ask_for_frames(listener.get());
  EXPECT_TRUE(option == nullptr || option->request(listener.get()));
  EXPECT_EQ(::listen(listener.get(), backlog), 0) << std::strerror(errno);
  return listener;
}

inline FileDescriptor accept_on(const FileDescriptor& listener) {
  FileDescriptor accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(accepted) << std::strerror(errno);
  return accepted;
}

// 0 or errno.
inline int connect_to(const FileDescriptor& socket, const std::string& where) {
  const SocketAddress to = address(where);
  return ::connect(socket.get(), to.data(), to.size()) == 0 ? 0 : errno;
}

inline FileDescriptor tcp_socket(const std::string& where) {
  return FileDescriptor(::socket(address(where).family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
}

class RedirectProgramsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!namespaces_.made()) GTEST_SKIP() << "no network namespaces";
    if (cgroup_.path().empty()) GTEST_SKIP() << "no cgroup of version 2 to write to";
    // Without systemd nobody has mounted it.
    if (const Result<void> ready = check_redirect_programs();
        !ready && ready.error().code == Errc::kNotFound)
      TwoNamespaces::run("mount -t bpf bpf /sys/fs/bpf");
    rules_.proxy_uid = kSidecarUid;
    rules_.outbound_port = kOutbound;
    rules_.inbound_port = kInbound;
    rules_.addresses = {address("10.9.0.2:0"), address("[fd09::2]:0")};
    rules_.include = {cidr("10.0.0.0/8"), cidr("fd00::/8")};
    outbound_ = listen_on("[::]:15001");
  }
  void TearDown() override {
    EXPECT_TRUE(cgroup_.path().empty() || detach_redirect_programs(place()));
  }
  RedirectPlace place() const {
    return {cgroup_.path(), "test-" + std::to_string(::getpid()) + ".1"};
  }
  void attach() {
    const auto reading = attach_redirect_programs(place(), rules_);
    ASSERT_TRUE(reading) << to_string(reading.error()) << "; " << refusal();
    reading_ = *reading;
  }
  void listen_for_peers() {
    auto option = OptionProgram::attach(cgroup_.path());
    ASSERT_TRUE(option) << to_string(option.error());
    option_.emplace(std::move(*option));
    inbound_ = listen_on("[::]:15006", &*option_);
  }
  // A client of the network connects. `smc`: its SYN has the option.
  FileDescriptor client(const std::string& where, bool smc, int expected = 0) {
    FileDescriptor made = namespaces_.client_socket(address(where).family());
    EXPECT_TRUE(!smc || option_->request_for_connection(made.get(), false));
    EXPECT_EQ(connect_to(made, where), expected) << where;
    return made;
  }

  // Of a map of the attached programs.
  std::size_t entries_of(const std::string& map) const {
    for (const bpf_attach_type type : {BPF_CGROUP_SOCK_OPS, BPF_CGROUP_INET4_CONNECT})
      if (const auto found = entries_of(type, map)) return *found;
    ADD_FAILURE() << "no map " << map;
    return 0;
  }
  std::optional<std::size_t> entries_of(bpf_attach_type type, const std::string& map) const {
    const FileDescriptor directory(::open(cgroup_.path().c_str(), O_RDONLY | O_CLOEXEC));
    std::array<__u32, 8> programs{};
    __u32 count = programs.size();
    EXPECT_EQ(bpf_prog_query(directory.get(), type, 0, nullptr, programs.data(), &count), 0);
    for (__u32 i = 0; i < count; ++i) {
      std::array<__u32, 16> ids{};
      bpf_prog_info info{};
      info.nr_map_ids = ids.size();
      info.map_ids = reinterpret_cast<std::uintptr_t>(ids.data());
      __u32 length = sizeof info;
      const FileDescriptor program(bpf_prog_get_fd_by_id(programs[i]));
      EXPECT_EQ(bpf_obj_get_info_by_fd(program.get(), &info, &length), 0);
      for (__u32 m = 0; m < info.nr_map_ids; ++m)
        if (const auto found = entries_of(ids[m], map)) return found;
    }
    return std::nullopt;
  }
  static std::optional<std::size_t> entries_of(__u32 id, const std::string& name) {
    const FileDescriptor map(bpf_map_get_fd_by_id(id));
    bpf_map_info info{};
    __u32 length = sizeof info;
    if (bpf_obj_get_info_by_fd(map.get(), &info, &length) != 0 || name != info.name)
      return std::nullopt;
    std::size_t count = 0;
    std::array<std::byte, 64> key{};
    for (int rc = bpf_map_get_next_key(map.get(), nullptr, key.data()); rc == 0; ++count)
      rc = bpf_map_get_next_key(map.get(), key.data(), key.data());
    return count;
  }

  OwnCgroup cgroup_;
  TwoNamespaces namespaces_;
  RedirectRules rules_;
  FileDescriptor outbound_, inbound_;
  std::optional<OptionProgram> option_;
  RedirectReading reading_;
};

struct Destination {
  const char* to;
  const char* seen_by_sidecar;
  const char* own_address;
};
inline constexpr Destination kDestinations[] = {
    {"10.99.0.9:6379", "[::ffff:10.99.0.9]:6379", "10.9.0.2:"},
    {"[::ffff:10.99.0.9]:80", "[::ffff:10.99.0.9]:80", "[::ffff:10.9.0.2]:"},
    {"[fd99::9]:443", "[fd99::9]:443", "[fd09::2]:"},
};

}  // namespace fairlead::bpf
