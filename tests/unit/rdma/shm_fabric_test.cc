#include "rdma/shm/shm_fabric.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "conformance/shm_device_pair.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

TEST(ShmGid, NamesFabricPortAndPeer) {
  const FabricId fabric{{1, 2, 3, 4, 5}};
  const PeerId peer{{6, 7, 8, 9, 10, 11, 12, 13}};
  const Gid gid = gid_of(fabric, PortNumber(2), peer);
  EXPECT_EQ(to_string(gid), "fdfa:102:304:502:607:809:a0b:c0d");
  const auto parsed = parse_gid(gid);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->fabric, fabric);
  EXPECT_EQ(parsed->port, PortNumber(2));
  EXPECT_EQ(parsed->peer, peer);
}

TEST(ShmGid, OtherFormsAreNotOurs) {
  const Gid good = gid_of({}, PortNumber(1), peer_id(1));
  auto with = [&](std::size_t at, std::uint8_t value) {
    Gid gid = good;
    gid.bytes[at] = value;
    return parse_gid(gid).has_value();
  };
  EXPECT_TRUE(parse_gid(good));
  EXPECT_FALSE(with(0, 0xfc));
  EXPECT_FALSE(with(1, 0xfb));
  EXPECT_FALSE(with(7, 0));
  EXPECT_FALSE(with(7, kPortsMax + 1));
  EXPECT_FALSE(parse_gid(gid_of({}, PortNumber(1), PeerId{})));
  EXPECT_FALSE(parse_gid(Gid{}));
}

TEST(ShmFabric, OpeningAtTheSameMomentAgreesOnOneIdentity) {
  for (int round = 0; round < 20; ++round) {
    FabricDirectory directory;
    std::vector<FabricId> ids(8);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ids.size(); ++i)
      threads.emplace_back([&, i] {
        auto fabric = Fabric::open(directory.path(), peer_id(static_cast<std::uint8_t>(i + 1)));
        ASSERT_TRUE(fabric) << to_string(fabric.error());
        ids[i] = fabric->id();
      });
    for (std::thread& thread : threads) thread.join();
    for (const FabricId& id : ids) EXPECT_EQ(id, ids[0]);
    EXPECT_NE(ids[0], FabricId{});
  }
}

// The identity is complete under another name, and finds no room for its own.
TEST(ShmFabric, AFullDirectoryIsExhaustedAndGetsNoIdentity) {
  FabricDirectory directory;
  const char* const path = directory.path().c_str();
  bool mounted = false;
  std::thread([&] {
    // This thread alone sees the file system, which has room for its root and one file.
    mounted = ::unshare(CLONE_NEWNS) == 0 &&
              ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
              ::mount("test", path, "tmpfs", 0, "nr_inodes=2") == 0;
    if (!mounted) return;
    const auto fabric = Fabric::open(directory.path(), peer_id(1));
    ASSERT_FALSE(fabric);
    EXPECT_EQ(fabric.error().code, Errc::kExhausted) << to_string(fabric.error());
    EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  }).join();
  if (!mounted) GTEST_SKIP() << "only root can mount a file system";
}

TEST(ShmFabric, DialledConnectionIsAccepted) {
  DescriptorCloser closer;
  FabricDirectory directory;
  auto one = Fabric::open(directory.path(), peer_id(1));
  auto two = Fabric::open(directory.path(), peer_id(2));
  ASSERT_TRUE(one && two);
  EXPECT_EQ(two->accept(closer).error().code, Errc::kWouldBlock);
  auto dialled = one->dial(peer_id(2), closer);
  ASSERT_TRUE(dialled);
  auto accepted = two->accept(closer);
  ASSERT_TRUE(accepted);
  EXPECT_EQ(::write(dialled->get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(accepted->get(), &byte, 1), 1);
  EXPECT_EQ(::read(accepted->get(), &byte, 1), -1);  // it does not block
}

TEST(ShmFabric, DiallingNobodyIsPeerGone) {
  DescriptorCloser closer;
  FabricDirectory directory;
  auto one = Fabric::open(directory.path(), peer_id(1));
  ASSERT_TRUE(one);
  EXPECT_EQ(one->dial(peer_id(2), closer).error().code, Errc::kPeerGone);
  EXPECT_FALSE(one->may_reach(peer_id(2)));
  EXPECT_TRUE(one->may_reach(peer_id(1)));
}

TEST(ShmFabric, FullBacklogIsExhaustedAndDoesNotBlock) {
  DescriptorCloser closer;
  FabricDirectory directory;
  auto one = Fabric::open(directory.path(), peer_id(1));
  auto two = Fabric::open(directory.path(), peer_id(2));
  ASSERT_TRUE(one && two);
  std::vector<FileDescriptor> sockets;
  for (int i = 0; i < 1000; ++i) {
    auto dialled = one->dial(peer_id(2), closer);
    if (!dialled) {
      EXPECT_EQ(dialled.error().code, Errc::kExhausted);
      return;
    }
    sockets.push_back(std::move(*dialled));
  }
  FAIL() << "a thousand connections fit the backlog";
}

// Otherwise the listener would stay readable, and its owner would never sleep.
TEST(ShmFabric, ConnectionIsTakenAndClosedWhenDescriptorsAreUsedUp) {
  constexpr int kHangMilliseconds = 30'000;
  DescriptorCloser closer;
  FabricDirectory directory;
  auto one = Fabric::open(directory.path(), peer_id(1));
  auto two = Fabric::open(directory.path(), peer_id(2));
  ASSERT_TRUE(one && two);
  auto dialled = one->dial(peer_id(2), closer);
  ASSERT_TRUE(dialled);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit full = before;
  {
    const FileDescriptor next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    full.rlim_cur = static_cast<rlim_t>(next.get());  // all numbers below are in use
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &full), 0);
  const auto accepted = two->accept(closer);
  const auto again = two->accept(closer);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(accepted);
  EXPECT_EQ(accepted.error().code, Errc::kExhausted);
  pollfd state{dialled->get(), POLLIN, 0};
  EXPECT_EQ(::poll(&state, 1, kHangMilliseconds), 1);
  EXPECT_TRUE(state.revents & POLLHUP);
  ASSERT_FALSE(again);
  EXPECT_EQ(two->accept(closer).error().code, Errc::kWouldBlock);
}

// As a thread that has another effective user.
void as_user(uid_t user, const std::function<void()>& act) {
  std::thread([&] {
    // The raw system call changes this thread alone.
    ASSERT_EQ(::syscall(SYS_setresuid, -1, user, -1), 0);
    act();
  }).join();
}

TEST(ShmFabric, AUserReachesHisOwnDevicesAndThoseOfRootOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as several users";
  constexpr uid_t kUser = 65534, kStranger = 65533;
  namespace fs = std::filesystem;
  DescriptorCloser closer;
  FabricDirectory directory;
  fs::permissions(directory.path(), fs::perms::all);
  // The mode of the socket lets everybody in, so that its owner alone decides.
  const auto open = [&](std::optional<Fabric>& fabric, std::uint8_t number) {
    auto opened = Fabric::open(directory.path(), peer_id(number));
    ASSERT_TRUE(opened) << to_string(opened.error());
    fabric.emplace(std::move(*opened));
    fs::permissions(directory.path() + "/" + to_string(peer_id(number)) + ".sock", fs::perms::all);
  };
  std::optional<Fabric> of_root, of_stranger, one, two;
  open(of_root, 3);
  as_user(kStranger, [&] { open(of_stranger, 4); });
  as_user(kUser, [&] {
    open(one, 1);
    open(two, 2);
  });
  ASSERT_TRUE(of_root && of_stranger && one && two);
  as_user(kUser, [&] {
    const auto dialled = one->dial(peer_id(2), closer);
    EXPECT_TRUE(dialled) << to_string(dialled.error());
    const auto accepted = two->accept(closer);
    EXPECT_TRUE(accepted) << to_string(accepted.error());
    EXPECT_TRUE(one->dial(peer_id(3), closer));
    EXPECT_EQ(one->dial(peer_id(4), closer).error().code, Errc::kPermission);
  });
  as_user(kStranger, [&] { (void)of_stranger->dial(peer_id(2), closer); });
  as_user(kUser, [&] { EXPECT_EQ(two->accept(closer).error().code, Errc::kPermission); });
  EXPECT_TRUE(of_root->dial(peer_id(2), closer));
  as_user(kUser, [&] { EXPECT_TRUE(two->accept(closer)); });
}

TEST(ShmFabric, NameIsFreeAgainAfterClosing) {
  FabricDirectory directory;
  for (int i = 0; i < 3; ++i) {
    auto fabric = Fabric::open(directory.path(), peer_id(1));
    ASSERT_TRUE(fabric);
    EXPECT_EQ(Fabric::open(directory.path(), peer_id(1)).error().code, Errc::kWrongState);
    EXPECT_TRUE(fabric->may_reach(peer_id(1)));
  }
}

}  // namespace
}  // namespace fairlead::rdma::shm
