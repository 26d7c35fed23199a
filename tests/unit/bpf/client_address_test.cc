// Goal: an application sees the client's address on the socket that an entry was written for, and
// on no other socket, whatever the entries contain meanwhile. Method: real connections on the
// running kernel, in a network namespace of the test's thread; the test is proxy and application at
// once. The file is long because it names every way in which an entry can belong to another socket.
#include "bpf/client_address_program.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/address.h"
#include "base/linux/handle.h"
#include "bpf/cgroup_path.h"
#include "bpf/client_address_map.h"
#include "bpf/client_address_probe.h"
#include "bpf/client_address_slots.h"

namespace fairlead::bpf {
namespace {

constexpr uid_t kStrangeUid = 61234;        // not in use elsewhere
constexpr std::chrono::seconds kStuck{60};  // a wait that long fails the test instead of hanging it
constexpr const char* kClient4 = "10.7.8.9:54321";
constexpr const char* kClient6 = "[fd00:7::9]:54321";

SocketAddress address(const std::string& text) {
  const Result<SocketAddress> parsed = SocketAddress::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed.value_or(SocketAddress());
}

using AddressCall = int (*)(int, sockaddr*, socklen_t*);

SocketAddress ask(int fd, AddressCall call) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  EXPECT_EQ(call(fd, reinterpret_cast<sockaddr*>(&storage), &length), 0) << strerror(errno);
  return SocketAddress::from(storage, length).value_or(SocketAddress());
}
SocketAddress peer_of(int fd) { return ask(fd, getpeername); }
SocketAddress local_of(int fd) { return ask(fd, getsockname); }

// The calling thread is in a separate network namespace, with the addresses of a pod on the only
// device, during the lifetime of the object.
class PodNetwork {
 public:
  PodNetwork() : home_(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    if (unshare(CLONE_NEWNET) != 0) {
      refusal_ = strerror(errno);
      return;
    }
    // The kernel makes an IPv6 address local in a worker, after `ip` has ended.
    const int status = std::system(
        "ip link set lo up && ip addr add 10.9.9.9/32 dev lo && "
        "ip addr add fd00:9::9/128 dev lo nodad && "
        "timeout 60 sh -c 'until ip -6 route get fd00:9::9 | grep -q ^local; do :; done'");
    EXPECT_EQ(status, 0) << "iproute2";
  }
  ~PodNetwork() { EXPECT_EQ(setns(home_.get(), CLONE_NEWNET), 0) << strerror(errno); }
  PodNetwork(const PodNetwork&) = delete;
  PodNetwork& operator=(const PodNetwork&) = delete;

  // The reason why the kernel created no namespace; empty if it did.
  const std::string& refusal() const { return refusal_; }

 private:
  FileDescriptor home_;
  std::string refusal_;
};

struct Connection {
  FileDescriptor listener, proxy, application;
  SocketAddress accepted_peer;  // as accept(2) reports it
};

FileDescriptor listen_on(const SocketAddress& where) {
  FileDescriptor listener(socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const timeval limit{.tv_sec = kStuck.count(), .tv_usec = 0};  // of accept(2)
  setsockopt(listener.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  EXPECT_EQ(bind(listener.get(), where.data(), where.size()), 0) << strerror(errno);
  EXPECT_EQ(listen(listener.get(), 64), 0) << strerror(errno);
  return listener;
}

// The address to which the proxy connects if the application listens on `listener`.
SocketAddress target_of(const FileDescriptor& listener, const char* pod) {
  return address(std::string(pod) + ":" + std::to_string(local_of(listener.get()).port()));
}

FileDescriptor connect_from(const SocketAddress& source, const SocketAddress& target) {
  FileDescriptor proxy(socket(target.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Result<void> bound = bind_source(proxy.get(), source);
  EXPECT_TRUE(bound) << to_string(bound.error());
  EXPECT_EQ(connect(proxy.get(), target.data(), target.size()), 0) << strerror(errno);
  return proxy;
}

FileDescriptor accept_on(const FileDescriptor& listener, SocketAddress& peer) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  FileDescriptor accepted(
      accept4(listener.get(), reinterpret_cast<sockaddr*>(&storage), &length, SOCK_CLOEXEC));
  EXPECT_TRUE(accepted) << strerror(errno);
  peer = SocketAddress::from(storage, length).value_or(SocketAddress());
  return accepted;
}

class ClientAddressTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!pod_.refusal().empty()) GTEST_SKIP() << "network namespaces: " << pod_.refusal();
    auto program = attach_here();
    if (!program) {
      if (program.error().code == Errc::kPermission || program.error().code == Errc::kUnsupported ||
          program.error().code == Errc::kNotFound)
        GTEST_SKIP() << to_string(program.error()) << "; " << refusal();
      FAIL() << to_string(program.error()) << "; " << refusal();
    }
    program_.emplace(std::move(*program));
    slots_.emplace(map(), 0, 1, 7);
  }

  // Programs of other tests, which run concurrently in the same cgroup, see other sockets.
  static Result<ClientAddressProgram> attach_here() {
    return ClientAddressProgram::attach({}, own_netns_cookie());
  }

  ClientAddressMap map() {
    auto opened = ClientAddressMap::open(program_->map_descriptor());
    EXPECT_TRUE(opened) << to_string(opened.error());
    return std::move(*opened);
  }

  PodNetwork pod_;
  std::optional<ClientAddressProgram> program_;
  std::optional<ClientAddressSlots> slots_;
};

struct Family {
  const char* name;
  const char* listen;
  const char* pod;
  const char* client;
  const char* reported;  // on the application's socket
};
constexpr Family kFamilies[] = {
    {"IPv4", "0.0.0.0:0", "10.9.9.9", kClient4, kClient4},
    {"IPv4 on loopback", "127.0.0.1:0", "127.0.0.1", kClient4, kClient4},
    {"IPv4-mapped", "[::]:0", "10.9.9.9", kClient4, "[::ffff:10.7.8.9]:54321"},
    {"IPv6", "[::]:0", "[fd00:9::9]", kClient6, kClient6},
    {"IPv6 on loopback", "[::1]:0", "[::1]", kClient6, kClient6},
};

TEST_F(ClientAddressTest, AcceptAndGetpeernameReportTheClient) {
  for (const Family& family : kFamilies) {
    const FileDescriptor listener = listen_on(address(family.listen));
    const SocketAddress target = target_of(listener, family.pod);
    auto lease = slots_->take(target.family());
    ASSERT_TRUE(lease);
    const FileDescriptor proxy =
        connect_from(lease->publish(address(family.client), target), target);
    SocketAddress peer;
    const FileDescriptor application = accept_on(listener, peer);
    EXPECT_EQ(to_string(peer), family.reported) << family.name;
    EXPECT_EQ(to_string(peer_of(application.get())), family.reported) << family.name;
    lease->release();
    EXPECT_EQ(to_string(peer_of(application.get())), family.reported)
        << family.name << ": late, and the slot is free";
    EXPECT_EQ(local_of(application.get()).unmapped(), target) << family.name;
    EXPECT_EQ(peer_of(proxy.get()), target) << family.name << ": our own end";
  }
}

// Where a server of the pod has the port of the slot, the kernel chooses one.
TEST_F(ClientAddressTest, TheKernelMayChooseThePort) {
  const FileDescriptor listener = listen_on(address("0.0.0.0:0"));
  const SocketAddress target = target_of(listener, "10.9.9.9");
  auto lease = slots_->take(AF_INET);
  lease->publish(address("10.66.6.6:666"), target);
  const SocketAddress source = lease->publish_without_port(address(kClient4), target);
  EXPECT_EQ(source.port(), 0);
  const FileDescriptor proxy = connect_from(source, target);
  SocketAddress peer;
  const FileDescriptor application = accept_on(listener, peer);
  EXPECT_EQ(to_string(peer), kClient4) << "before the port is known";
  lease->set_source_port(local_of(proxy.get()).port());
  EXPECT_EQ(to_string(peer_of(application.get())), kClient4);
  lease->publish_without_port(address(kClient4), target);
  lease->set_source_port(static_cast<std::uint16_t>(local_of(proxy.get()).port() ^ 1));
  EXPECT_NE(to_string(peer_of(application.get())), kClient4);
}

// Every slot is reused, more than once. An old socket then never reports another client's address.
TEST_F(ClientAddressTest, ReusedSlotReportsTheApplicationsOwnAddressForTheOldSocket) {
  const FileDescriptor listener = listen_on(address("0.0.0.0:0"));
  const SocketAddress target = target_of(listener, "10.9.9.9");
  auto lease = slots_->take(AF_INET);
  const std::uint32_t slot = lease->slot();
  const FileDescriptor first = connect_from(lease->publish(address(kClient4), target), target);
  SocketAddress peer;
  const FileDescriptor old = accept_on(listener, peer);
  for (int round = 0; round < FAIRLEAD_CLIENT_GENERATIONS - 1; ++round) {
    lease->publish(address("10.66.6.6:666"), target);
    EXPECT_EQ(to_string_without_port(peer_of(old.get())), "10.9.9.9") << round;
  }
  // The generation is that of the old socket again; only the source port distinguishes the two.
  const SocketAddress again = lease->publish(address("10.66.6.6:666"), target);
  EXPECT_EQ(again.with_port(0), local_of(first.get()).with_port(0));
  EXPECT_EQ(peer_of(old.get()), local_of(first.get())) << slot;
}

// Proxies of several network namespaces may share a cgroup. The older programs run first.
TEST_F(ClientAddressTest, ProgramsOfAnotherNetworkNamespaceLeaveSocketsAlone) {
  if (own_netns_cookie() == 0) GTEST_SKIP() << "SO_NETNS_COOKIE needs Linux 5.14";
  slots_.reset();
  program_.reset();
  auto other = attach_here();
  ASSERT_TRUE(other);
  auto other_map = ClientAddressMap::open(other->map_descriptor());
  ASSERT_TRUE(other_map);
  ClientAddressSlots other_slots(std::move(*other_map), 0, 1, 8);
  const PodNetwork second;
  ASSERT_EQ(second.refusal(), "");
  auto program = attach_here();
  ASSERT_TRUE(program);
  program_.emplace(std::move(*program));
  slots_.emplace(map(), 0, 1, 7);
  const FileDescriptor listener = listen_on(address("0.0.0.0:0"));
  const SocketAddress target = target_of(listener, "10.9.9.9");
  auto lease = slots_->take(AF_INET);
  auto other_lease = other_slots.take(AF_INET);
  ASSERT_EQ(lease->slot(), other_lease->slot());
  const SocketAddress source = lease->publish(address(kClient4), target);
  SocketAddress other_source = source;
  while (other_source == source)
    other_source = other_lease->publish(address("10.66.6.6:666"), target);
  const FileDescriptor proxy = connect_from(source, target);
  SocketAddress peer;
  const FileDescriptor application = accept_on(listener, peer);
  EXPECT_EQ(to_string(peer), kClient4);
  EXPECT_EQ(to_string(peer_of(application.get())), kClient4);
}

TEST_F(ClientAddressTest, SocketsThatNoEntryWasWrittenForKeepTheirAddress) {
  const FileDescriptor listener = listen_on(address("[::]:0"));
  const FileDescriptor other_listener = listen_on(address("[::]:0"));
  const SocketAddress target = target_of(listener, "10.9.9.9");
  const SocketAddress other = target_of(other_listener, "10.9.9.9");
  const SocketAddress target6 = target_of(listener, "[fd00:9::9]");
  const SocketAddress other6 = target_of(other_listener, "[fd00:9::9]");
  auto lease = slots_->take(AF_INET6);
  const SocketAddress source6 = lease->publish(address(kClient6), target6);
  auto lease4 = slots_->take(AF_INET);
  const SocketAddress source = lease4->publish_without_port(address(kClient4), target);
  lease4->set_source_port(7);  // another socket's
  auto unused = address("127.200.1.2:0");
  struct Case {
    const char* name;
    SocketAddress source, target;
    const FileDescriptor& listener;
  };
  for (const Case& one : {
           Case{"IPv4: another source port", source, target, listener},
           Case{"IPv4: another application port", source, other, other_listener},
           Case{"IPv4: a slot never used", unused, target, listener},
           Case{"IPv4: outside of the block", address("127.77.1.2:0"), target, listener},
           Case{"IPv6: another application port", source6, other6, other_listener},
           Case{"IPv6: another source port", target6.with_port(source6.port() ^ 1), target6,
                listener},
       }) {
    const FileDescriptor socket = connect_from(one.source, one.target);
    SocketAddress peer;
    const FileDescriptor accepted = accept_on(one.listener, peer);
    EXPECT_EQ(peer.unmapped(), local_of(socket.get())) << one.name;
    EXPECT_EQ(peer_of(accepted.get()).unmapped(), local_of(socket.get())) << one.name;
  }
}

// The application connects to remote ports with the numbers of the entries.
TEST_F(ClientAddressTest, ConnectionsOfTheApplicationToTheSameNumbersKeepTheirAddress) {
  const FileDescriptor listener = listen_on(address("[::]:0"));
  for (const char* pod : {"[fd00:9::9]", "[::1]"}) {
    const SocketAddress target = target_of(listener, pod);
    auto lease = slots_->take(AF_INET6);
    const SocketAddress source = lease->publish(address(kClient6), target);
    // A server at the address and port that the entry names as the proxy's.
    const FileDescriptor server = listen_on(source);
    FileDescriptor client(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(client.get(), source.data(), source.size()), 0) << strerror(errno);
    EXPECT_EQ(peer_of(client.get()), source);
    SocketAddress peer;
    const FileDescriptor accepted = accept_on(server, peer);
    EXPECT_EQ(peer, local_of(client.get()));
  }
  const SocketAddress target = target_of(listener, "10.9.9.9");
  auto lease = slots_->take(AF_INET);
  const SocketAddress source = lease->publish(address(kClient4), target);
  const FileDescriptor server = listen_on(source);
  const SocketAddress service = local_of(server.get());
  FileDescriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(client.get(), service.data(), service.size()), 0) << strerror(errno);
  EXPECT_EQ(peer_of(client.get()), service);
}

TEST_F(ClientAddressTest, ReaderSeesOneClaimOrNoneWhileTheEntryChanges) {
  const FileDescriptor listener = listen_on(address("[::]:0"));
  const SocketAddress target = target_of(listener, "[fd00:9::9]");
  auto lease = slots_->take(AF_INET6);
  const std::array clients = {address("[1111:1111:1111:1111:1111:1111:1111:1111]:4369"),
                              address("[2222:2222:2222:2222:2222:2222:2222:2222]:8738")};
  const SocketAddress source = lease->publish(clients[0], target);
  const FileDescriptor proxy = connect_from(source, target);
  SocketAddress peer;
  const FileDescriptor application = accept_on(listener, peer);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::size_t i = 0; !stop.load(std::memory_order_relaxed); ++i)
      lease->publish(clients[i % 2], target);
  });
  std::array<int, 3> seen{};
  for (int i = 0; i < 200'000; ++i) {
    const SocketAddress now = peer_of(application.get());
    const std::size_t which = now == clients[0] ? 0 : now == clients[1] ? 1 : 2;
    ++seen[which];
    if (which == 2) {
      EXPECT_EQ(now, source);
    }
  }
  stop.store(true);
  writer.join();
  EXPECT_GT(seen[0] + seen[1], 0);
}

TEST_F(ClientAddressTest, NothingIsReportedAfterTheProgramsAreDetached) {
  const FileDescriptor listener = listen_on(address("0.0.0.0:0"));
  const SocketAddress target = target_of(listener, "10.9.9.9");
  auto lease = slots_->take(AF_INET);
  const FileDescriptor proxy = connect_from(lease->publish(address(kClient4), target), target);
  program_.reset();
  SocketAddress peer;
  const FileDescriptor application = accept_on(listener, peer);
  EXPECT_EQ(peer, local_of(proxy.get()));
}

TEST_F(ClientAddressTest, ProbeTellsWhetherTheMapIsRead) {
  ClientAddressMap read = map();
  for (int round = 0; round < 3; ++round) {
    const Result<bool> works = client_address_works(read);
    ASSERT_TRUE(works) << to_string(works.error());
    EXPECT_TRUE(*works);
  }
  program_.reset();
  const Result<bool> works = client_address_works(read);
  ASSERT_TRUE(works) << to_string(works.error());
  EXPECT_FALSE(*works);
}

TEST_F(ClientAddressTest, MapIsWrittenWithoutPrivileges) {
  const int descriptor = program_->map_descriptor();
  std::thread([&] {
    // The kernel's call: that of glibc changes all threads.
    if (syscall(SYS_setresuid, kStrangeUid, kStrangeUid, kStrangeUid) != 0)
      GTEST_SKIP() << "another uid: " << strerror(errno);
    auto opened = ClientAddressMap::open(descriptor);
    ASSERT_TRUE(opened) << to_string(opened.error());
    const Result<bool> works = client_address_works(*opened);
    ASSERT_TRUE(works) << to_string(works.error());
    EXPECT_TRUE(*works);
    const auto own = attach_here();
    ASSERT_FALSE(own);
    EXPECT_EQ(own.error().code, Errc::kPermission);
  }).join();
}

FileDescriptor make_map(bpf_map_type type, __u32 value_bytes, __u32 entries, __u32 flags) {
  bpf_attr attributes{};
  attributes.map_type = type;
  attributes.key_size = 4;
  attributes.value_size = value_bytes;
  attributes.max_entries = entries;
  attributes.map_flags = flags;
  return FileDescriptor(
      static_cast<int>(syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes)));
}

TEST_F(ClientAddressTest, OtherDescriptorsAreRefused) {
  constexpr __u32 kEntry = sizeof(fairlead_client_entry);
  FileDescriptor memory(memfd_create("not a map", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(memory.get(), 1 << 20), 0);
  std::vector<FileDescriptor> others;
  others.push_back(std::move(memory));
  others.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  others.push_back(make_map(BPF_MAP_TYPE_ARRAY, kEntry, FAIRLEAD_CLIENT_SLOTS - 1, BPF_F_MMAPABLE));
  others.push_back(make_map(BPF_MAP_TYPE_ARRAY, kEntry - 8, FAIRLEAD_CLIENT_SLOTS, BPF_F_MMAPABLE));
  others.push_back(make_map(BPF_MAP_TYPE_ARRAY, kEntry, FAIRLEAD_CLIENT_SLOTS, 0));
  others.push_back(make_map(BPF_MAP_TYPE_HASH, kEntry, FAIRLEAD_CLIENT_SLOTS, 0));
  for (const FileDescriptor& other : others) {
    ASSERT_TRUE(other) << &other - others.data();
    const auto opened = ClientAddressMap::open(other.get());
    ASSERT_FALSE(opened) << &other - others.data();
    EXPECT_EQ(opened.error().code, Errc::kMalformed) << to_string(opened.error());
  }
  EXPECT_FALSE(ClientAddressMap::open(-1));
}

TEST_F(ClientAddressTest, WorkersShareNoSlot) {
  std::set<std::uint32_t> slots;
  std::size_t with_port = 0;
  for (unsigned workers : {1U, 3U, 64U}) {
    slots.clear();
    for (unsigned worker = 0; worker < workers; ++worker) {
      ClientAddressSlots share(map(), worker, workers, 1);
      std::vector<ClientAddressLease> leases;
      while (auto lease = share.take(AF_INET6)) leases.push_back(std::move(*lease));
      with_port += leases.size();
      while (auto lease = share.take(AF_INET)) leases.push_back(std::move(*lease));
      EXPECT_FALSE(share.take(AF_INET6));
      for (const ClientAddressLease& lease : leases)
        EXPECT_TRUE(slots.insert(lease.slot()).second) << lease.slot();
    }
    EXPECT_EQ(slots.size(), std::size_t{FAIRLEAD_CLIENT_SLOTS - 1});
    EXPECT_FALSE(slots.contains(FAIRLEAD_CLIENT_PROBE_SLOT));
  }
  EXPECT_EQ(with_port, 3U * (65536 - FAIRLEAD_CLIENT_PORT_FIRST));
}

TEST_F(ClientAddressTest, SlotsAreUsedAgainInTheOrderInWhichTheyBecameFree) {
  std::size_t since = 0;
  const std::uint32_t first = slots_->take(AF_INET)->slot();
  while (slots_->take(AF_INET)->slot() != first) ++since;
  EXPECT_EQ(since, std::size_t{FAIRLEAD_CLIENT_SLOTS - 2}) << "connections until a slot came again";
}

TEST_F(ClientAddressTest, NextWriterOfTheMapGoesOnWithOtherGenerations) {
  const SocketAddress application = address("10.9.9.9:80");
  std::set<SocketAddress> sources;
  for (std::uint64_t writer = 0; writer < 50; ++writer) {
    ClientAddressSlots slots(map(), 0, 1, 7);  // the same seed: chance does not help
    auto lease = slots.take(AF_INET);
    EXPECT_TRUE(sources.insert(lease->publish(address(kClient4), application)).second) << writer;
  }
}

TEST_F(ClientAddressTest, EntriesMoveToAnotherMap) {
  const FileDescriptor listener = listen_on(address("0.0.0.0:0"));
  const SocketAddress target = target_of(listener, "10.9.9.9");
  auto lease = slots_->take(AF_INET);
  const FileDescriptor proxy = connect_from(lease->publish(address(kClient4), target), target);
  auto second = attach_here();
  ASSERT_TRUE(second) << to_string(second.error());
  auto opened = ClientAddressMap::open(second->map_descriptor());
  ASSERT_TRUE(opened);
  slots_->move_to(std::move(*opened));
  program_.reset();
  SocketAddress peer;
  const FileDescriptor application = accept_on(listener, peer);
  EXPECT_EQ(to_string(peer), kClient4);
}

// A separate cgroup below that of the test's process, which never joins it.
class LastingTest : public ClientAddressTest {
 protected:
  void SetUp() override {
    ClientAddressTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    program_.reset();
    const auto own = own_cgroup_path();
    ASSERT_TRUE(own);
    path_ = *own + "/fairlead-test-" + std::to_string(getpid());
    if (mkdir(path_.c_str(), 0755) != 0) GTEST_SKIP() << path_ << ": " << strerror(errno);
  }
  void TearDown() override {
    if (!path_.empty()) rmdir(path_.c_str());
  }
  std::string path_;
};

TEST_F(LastingTest, AttachesOnceAndIsFoundByAnyLaterProcess) {
  const auto none = find_client_address_map(path_);
  ASSERT_TRUE(none) << to_string(none.error());
  EXPECT_EQ(*none, 0U);
  ASSERT_TRUE(attach_client_address(path_));
  const auto first = find_client_address_map(path_);
  ASSERT_TRUE(first) << to_string(first.error());
  const auto opened = open_client_address_map(*first);
  ASSERT_TRUE(opened) << to_string(opened.error());
  auto written = ClientAddressMap::open(opened->get());
  ASSERT_TRUE(written) << to_string(written.error());
  ClientAddressClaim claim;
  claim.generation = 99;
  publish(written->entry(5), claim);
  ASSERT_TRUE(attach_client_address(path_)) << "again";
  const auto again = find_client_address_map(path_);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *first) << "the same map";
  auto same = ClientAddressMap::open(open_client_address_map(*again)->get());
  ASSERT_TRUE(same);
  EXPECT_EQ(generation_of(same->entry(5)), 99U);
  ASSERT_TRUE(detach_client_address(path_));
  const auto gone = find_client_address_map(path_);
  ASSERT_TRUE(gone);
  EXPECT_EQ(*gone, 0U);
  EXPECT_TRUE(detach_client_address(path_)) << "again";
}

TEST_F(LastingTest, CgroupThatIsGoneIsNoErrorWhenDetaching) {
  EXPECT_TRUE(detach_client_address(path_ + "/gone"));
  const auto missing = attach_client_address(path_ + "/gone");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kNotFound);
}

// A foreign program that permits no further programs.
TEST_F(LastingTest, CgroupThatExcludesFurtherProgramsIsAnError) {
  const std::array<bpf_insn, 2> returns_one = {bpf_insn{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1},
                                               bpf_insn{BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
  bpf_attr load{};
  load.prog_type = BPF_PROG_TYPE_CGROUP_SOCK_ADDR;
  load.expected_attach_type = BPF_CGROUP_INET6_GETPEERNAME;
  load.insns = reinterpret_cast<std::uintptr_t>(returns_one.data());
  load.insn_cnt = returns_one.size();
  load.license = reinterpret_cast<std::uintptr_t>("GPL");
  const FileDescriptor program(
      static_cast<int>(syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load)));
  ASSERT_TRUE(program) << strerror(errno);
  const FileDescriptor cgroup(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  bpf_attr attach{};
  attach.target_fd = static_cast<__u32>(cgroup.get());
  attach.attach_bpf_fd = static_cast<__u32>(program.get());
  attach.attach_type = BPF_CGROUP_INET6_GETPEERNAME;
  ASSERT_EQ(syscall(SYS_bpf, BPF_PROG_ATTACH, &attach, sizeof attach), 0) << strerror(errno);
  const auto refused = attach_client_address(path_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kPermission) << to_string(refused.error());
  const auto left = find_client_address_map(path_);
  ASSERT_TRUE(left);
  EXPECT_EQ(*left, 0U) << "half of it must not stay";
}

// The connections that another process has begun hold theirs without a lease.
TEST_F(ClientAddressTest, AWithdrawnSlotIsGivenToNobody) {
  const std::uint32_t withdrawn = slots_->take(AF_INET)->slot();
  slots_->withdraw(withdrawn);
  std::vector<ClientAddressLease> leases;
  while (auto lease = slots_->take(AF_INET)) {
    EXPECT_NE(lease->slot(), withdrawn);
    leases.push_back(std::move(*lease));
  }
  EXPECT_GT(leases.size(), 1000U);
}

}  // namespace
}  // namespace fairlead::bpf
