#include "rdma/shm/shm_fabric.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
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
