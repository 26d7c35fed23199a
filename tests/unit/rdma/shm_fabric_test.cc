#include "rdma/shm/connect/shm_fabric.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "conformance/shm_device_pair.h"
#include "lingering_socket.h"
#include "rdma/shm/shm_limits.h"
#include "unit/rdma/as_user.h"
#include "unit/rdma/descriptor_limit.h"
#include "unit/rdma/full_file_table.h"
#include "unit/rdma/other_end.h"
#include "unit/rdma/socket_path.h"

namespace fairlead::rdma::shm {
namespace {

std::set<std::string> names_in(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.insert(entry.path().filename());
  return names;
}

void write_file(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

// The socket of a process that has died.
void leave_socket(const std::string& path) {
  const FileDescriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const auto address = UnixAddress::of_path(path);
  ASSERT_TRUE(address);
  ASSERT_EQ(::bind(fd.get(), address->data(), address->size()), 0);
}

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
  EXPECT_TRUE(with(7, kPortsMax));
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

struct SmallFileSystem {
  const char* name;
  const char* options;   // of tmpfs
  const char* file;      // there before, or null
  const char* contents;  // of it
  Errc error;
  std::set<std::string> left;  // names
};

class ShmFabricOfASmallFileSystem : public testing::TestWithParam<SmallFileSystem> {
 protected:
  // `act` runs where the directory is a file system of its own, which this thread alone sees.
  void with(const char* options, const std::function<void()>& act) {
    bool mounted = false;
    std::thread([&] {
      mounted = ::unshare(CLONE_NEWNS) == 0 &&
                ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                ::mount("test", directory_.path().c_str(), "tmpfs", 0, options) == 0;
      if (mounted) act();
    }).join();
    if (!mounted) GTEST_SKIP() << "only root can mount a file system";
  }

  FabricDirectory directory_;
};

TEST_P(ShmFabricOfASmallFileSystem, IsNotOpenedAndLeavesNothing) {
  const SmallFileSystem& where = GetParam();
  with(where.options, [&] {
    if (where.file != nullptr) write_file(directory_.path() + '/' + where.file, where.contents);
    const auto fabric = Fabric::open(directory_.path(), peer_id(1));
    ASSERT_FALSE(fabric);
    EXPECT_EQ(fabric.error().code, where.error);
    EXPECT_EQ(names_in(directory_.path()), where.left);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Each, ShmFabricOfASmallFileSystem,
    testing::Values(
        // The identity is complete under another name, and finds no room for its own.
        SmallFileSystem{
            "WithoutRoomForTheIdentity", "nr_inodes=2", nullptr, "", Errc::kExhausted, {}},
        SmallFileSystem{"WithoutRoomForItsContents",
                        "size=4k",
                        "other",
                        "takes the only page",
                        Errc::kExhausted,
                        {"other"}},
        SmallFileSystem{
            "WithoutRoomForTheSocket", "nr_inodes=3", nullptr, "", Errc::kExhausted, {"fabric"}},
        // Nobody replaces it, since others may already have taken it up.
        SmallFileSystem{"WithADamagedIdentity",
                        "nr_inodes=2",
                        "fabric",
                        "short",
                        Errc::kMalformed,
                        {"fabric"}}),
    [](const auto& where) { return std::string(where.param.name); });

TEST(ShmFabric, LeavesItsIdentityAndWhileItLivesItsSocket) {
  FabricDirectory directory;
  const std::string path = directory.path() + "/not/there/yet";
  const std::string self = socket_name(peer_id(1));
  FabricId id;
  {
    auto fabric = Fabric::open(path, peer_id(1));
    ASSERT_TRUE(fabric) << to_string(fabric.error());
    id = fabric->id();
    EXPECT_EQ(names_in(path), (std::set<std::string>{"fabric", self}));
    const Fabric moved(std::move(*fabric));
    EXPECT_TRUE(moved.may_reach(peer_id(1)));
  }
  EXPECT_EQ(names_in(path), std::set<std::string>{"fabric"});
  auto again = Fabric::open(path, peer_id(1));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->id(), id);
}

TEST(ShmFabric, IdentityIsTheBeginningOfItsFile) {
  FabricDirectory directory;
  write_file(directory.path() + "/fabric", "0123456789abcdef");
  auto fabric = Fabric::open(directory.path(), peer_id(1));
  ASSERT_TRUE(fabric);
  EXPECT_EQ(fabric->id(), (FabricId{{'0', '1', '2', '3', '4'}}));
}

TEST(ShmFabric, IdentityOfAnotherLengthIsMalformed) {
  for (const std::size_t length : {0U, 15U, 17U}) {
    FabricDirectory directory;
    write_file(directory.path() + "/fabric", std::string(length, 'x'));
    const auto fabric = Fabric::open(directory.path(), peer_id(1));
    ASSERT_FALSE(fabric) << length;
    EXPECT_EQ(fabric.error().code, Errc::kMalformed) << length;
    EXPECT_EQ(names_in(directory.path()), std::set<std::string>{"fabric"}) << length;
  }
}

TEST(ShmFabric, IdentityThatCannotBeReadIsAnError) {
  FabricDirectory folder, nowhere;
  std::filesystem::create_directory(folder.path() + "/fabric");
  EXPECT_EQ(Fabric::open(folder.path(), peer_id(1)).error().system, EISDIR);
  std::filesystem::create_symlink(nowhere.path() + "/gone", nowhere.path() + "/fabric");
  EXPECT_EQ(Fabric::open(nowhere.path(), peer_id(1)).error().code, Errc::kNotFound);
}

// The limit for files is one that a write may reach in the middle.
TEST(ShmFabric, IdentityThatIsWrittenInPartIsGivenUp) {
  FabricDirectory directory;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 8;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto fabric = Fabric::open(directory.path(), peer_id(1));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(fabric);
  EXPECT_EQ(fabric.error().code, Errc::kExhausted);
  EXPECT_EQ(names_in(directory.path()), std::set<std::string>{});
}

TEST(ShmFabric, DirectoryThatCannotBeMadeIsAnError) {
  FabricDirectory directory;
  write_file(directory.path() + "/file", "");
  const auto fabric = Fabric::open(directory.path() + "/file/fabric", peer_id(1));
  ASSERT_FALSE(fabric);
  EXPECT_EQ(fabric.error(), (Error{Errc::kSystem, "directory of the fabric", ENOTDIR}));
}

TEST(ShmFabric, DirectoryWhosePathIsTooLongForASocketIsNotMade) {
  FabricDirectory directory;
  const std::string path = directory.path() + "/" + std::string(80, 'x');
  EXPECT_EQ(Fabric::open(path, peer_id(1)).error().code, Errc::kUnsupported);
  EXPECT_EQ(names_in(directory.path()), std::set<std::string>{});
}

TEST(ShmFabric, SocketsOfTheDeadAreRemovedWhenADeviceOpens) {
  FabricDirectory directory;
  for (const char* name : {"0000000000000000.sock", "9999999999999999.sock",
                           "aaaaaaaaaaaaaaaa.sock", "ffffffffffffffff.sock"})
    leave_socket(directory.path() + '/' + name);
  ASSERT_TRUE(Fabric::open(directory.path(), peer_id(1)));
  EXPECT_EQ(names_in(directory.path()), std::set<std::string>{"fabric"});
}

TEST(ShmFabric, SocketsOfOtherNamesAreLeftAlone) {
  FabricDirectory directory;
  std::set<std::string> names = {"000000000000000.sock",  "00000000000000000.sock",
                                 "0000000000000000.sick", "000000000000000g.sock",
                                 "000000000000000`.sock", "000000000000000:.sock",
                                 "000000000000000A.sock", ".000000000000000.sock"};
  for (const std::string& name : names) leave_socket(directory.path() + '/' + name);
  ASSERT_TRUE(Fabric::open(directory.path(), peer_id(1)));
  names.insert("fabric");
  EXPECT_EQ(names_in(directory.path()), names);
}

TEST(ShmFabric, SocketsOfTheLivingStay) {
  DescriptorCloser closer;
  FabricDirectory directory;
  auto one = Fabric::open(directory.path(), peer_id(1));
  auto busy = Fabric::open(directory.path(), peer_id(2));
  ASSERT_TRUE(one && busy);
  std::vector<FileDescriptor> sockets;
  for (auto dialled = one->dial(peer_id(2), closer); dialled;
       dialled = one->dial(peer_id(2), closer))
    sockets.push_back(std::move(*dialled));
  const auto three = Fabric::open(directory.path(), peer_id(3));
  ASSERT_TRUE(three);
  EXPECT_EQ(names_in(directory.path()),
            (std::set<std::string>{"fabric", socket_name(peer_id(1)), socket_name(peer_id(2)),
                                   socket_name(peer_id(3))}));
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
  write_file(directory.path() + '/' + socket_name(peer_id(2)), "no socket");
  EXPECT_FALSE(one->may_reach(peer_id(2)));
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
  DescriptorCloser closer;
  FabricDirectory directory;
  auto one = Fabric::open(directory.path(), peer_id(1));
  auto two = Fabric::open(directory.path(), peer_id(2));
  ASSERT_TRUE(one && two);
  const auto dialled = one->dial(peer_id(2), closer);
  ASSERT_TRUE(dialled);
  {
    const DescriptorLimit limit(DescriptorLimit::used_up());
    EXPECT_EQ(two->accept(closer).error().code, Errc::kExhausted);
    EXPECT_TRUE(gets_hung_up(dialled->get()));
  }
  EXPECT_EQ(two->accept(closer).error().code, Errc::kWouldBlock);
  EXPECT_TRUE(one->dial(peer_id(2), closer));
  EXPECT_TRUE(two->accept(closer));
}

TEST(ShmFabric, ConnectionIsTakenAndClosedWhenTheFilesOfTheSystemAreUsedUp) {
  DescriptorCloser closer;
  FabricDirectory directory;
  auto one = Fabric::open(directory.path(), peer_id(1));
  auto two = Fabric::open(directory.path(), peer_id(2));
  ASSERT_TRUE(one && two);
  const auto dialled = one->dial(peer_id(2), closer);
  ASSERT_TRUE(dialled);
  let_next_accept_find_no_file();
  EXPECT_EQ(two->accept(closer).error().code, Errc::kExhausted);
  EXPECT_TRUE(gets_hung_up(dialled->get()));
}

TEST(ShmFabric, ConnectionCanBeTakenAfterALookWithoutDescriptors) {
  DescriptorCloser closer;
  FabricDirectory directory;
  auto fabric = Fabric::open(directory.path(), peer_id(1));
  ASSERT_TRUE(fabric);
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  {
    const DescriptorLimit limit(DescriptorLimit::used_up());
    EXPECT_FALSE(fabric->accept(closer));
    EXPECT_EQ(DescriptorLimit::next(), DescriptorLimit::kNone);
    connect_to(socket.get(), directory.path() + '/' + socket_name(peer_id(1)));
    EXPECT_EQ(fabric->accept(closer).error().code, Errc::kExhausted);
  }
  EXPECT_TRUE(gets_hung_up(socket.get()));
}

// Devices of several users in one directory. The modes let everybody in, so that the owners of the
// sockets alone decide.
class ShmFabricOfUsers : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can act as several users";
    std::filesystem::permissions(directory_.path(), std::filesystem::perms::all);
    open(of_root_, 3);
    as_user(kStranger, [&] { open(of_stranger_, 4); });
    as_user(kUser, [&] {
      open(one_, 1);
      open(two_, 2);
    });
    ASSERT_TRUE(of_root_ && of_stranger_ && one_ && two_);
  }
  void open(std::optional<Fabric>& fabric, std::uint8_t number) {
    auto opened = Fabric::open(directory_.path(), peer_id(number));
    ASSERT_TRUE(opened) << to_string(opened.error());
    fabric.emplace(std::move(*opened));
    std::filesystem::permissions(directory_.path() + "/" + socket_name(peer_id(number)),
                                 std::filesystem::perms::all);
  }
  // Its thread stays in this close, so that what it gets next remains open.
  void occupy_closer() { closer_.close(lingering_.make()); }
  FileDescriptor stranger_dials() const {
    FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    as_user(kStranger,
            [&] { connect_to(socket.get(), directory_.path() + '/' + socket_name(peer_id(2))); });
    return socket;
  }
  // Nothing when nobody has connected.
  FileDescriptor stranger_accepts() const {
    return FileDescriptor(::accept4(of_stranger_->listener().descriptor(), nullptr, nullptr,
                                    SOCK_CLOEXEC | SOCK_NONBLOCK));
  }

  FabricDirectory directory_;
  DescriptorCloser closer_;
  LingeringSockets lingering_;
  std::optional<Fabric> of_root_, of_stranger_, one_, two_;
};

TEST_F(ShmFabricOfUsers, AUserReachesHisOwnDevicesAndThoseOfRootOnly) {
  as_user(kUser, [&] {
    const auto dialled = one_->dial(peer_id(2), closer_);
    EXPECT_TRUE(dialled) << to_string(dialled.error());
    const auto accepted = two_->accept(closer_);
    EXPECT_TRUE(accepted) << to_string(accepted.error());
    EXPECT_TRUE(one_->dial(peer_id(3), closer_));
    EXPECT_EQ(one_->dial(peer_id(4), closer_).error().code, Errc::kPermission);
  });
  as_user(kStranger, [&] { (void)of_stranger_->dial(peer_id(2), closer_); });
  as_user(kUser, [&] { EXPECT_EQ(two_->accept(closer_).error().code, Errc::kPermission); });
  EXPECT_TRUE(of_root_->dial(peer_id(2), closer_));
  as_user(kUser, [&] { EXPECT_TRUE(two_->accept(closer_)); });
}

// The close of a socket may wait for what a stranger has sent into it.
TEST_F(ShmFabricOfUsers, ConnectionsWithAStrangerAreLeftToTheCloser) {
  const FileDescriptor theirs = stranger_dials();
  // A device that opens the fabric tests whether the other sockets have a listener.
  while (stranger_accepts()) continue;
  occupy_closer();
  as_user(kUser, [&] {
    EXPECT_EQ(two_->accept(closer_).error().code, Errc::kPermission);
    EXPECT_EQ(one_->dial(peer_id(4), closer_).error().code, Errc::kPermission);
  });
  const FileDescriptor dialled = stranger_accepts();
  ASSERT_TRUE(dialled);
  EXPECT_FALSE(is_hung_up(theirs.get()));
  EXPECT_FALSE(is_hung_up(dialled.get()));
  lingering_ = LingeringSockets();
  EXPECT_TRUE(gets_hung_up(theirs.get()));
  EXPECT_TRUE(gets_hung_up(dialled.get()));
}

TEST_F(ShmFabricOfUsers, ConnectionsWithoutDescriptorsAreLeftToTheCloser) {
  two_->listener().close_with(closer_);
  occupy_closer();
  FileDescriptor theirs;
  std::optional<Errc> code;
  // A thread that has ended may free a descriptor behind the limit.
  for (int tries = 0; tries < 10 && code != Errc::kExhausted; ++tries) {
    theirs = stranger_dials();
    const DescriptorLimit limit(DescriptorLimit::used_up());
    code = two_->accept(closer_).error().code;
  }
  EXPECT_EQ(code, Errc::kExhausted);
  EXPECT_FALSE(is_hung_up(theirs.get()));
  lingering_ = LingeringSockets();
  EXPECT_TRUE(gets_hung_up(theirs.get()));
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
