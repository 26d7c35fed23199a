// Opening the shared-memory device: its directory, the files that it leaves there, and its limits.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "conformance/endpoint.h"
#include "conformance/shm_device_pair.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

namespace fs = std::filesystem;

TEST(ShmDevice, TellsItsPortsAndGids) {
  FabricDirectory directory;
  auto device = open_device(directory, 7, 2);
  ASSERT_TRUE(device);
  ASSERT_EQ(device->ports().size(), 2u);
  for (const Port& port : device->ports()) {
    EXPECT_EQ(port.state, PortState::kActive);
    EXPECT_EQ(port.mtu, Mtu::k4096);
    EXPECT_EQ(port.gid, ShmDevice::gid_of(device->fabric(), port.number, peer_id(7)));
    EXPECT_EQ(port.mac.bytes[0], 0x02);
  }
  EXPECT_NE(device->ports()[0].gid, device->ports()[1].gid);
  EXPECT_NE(device->ports()[0].mac, device->ports()[1].mac);
  EXPECT_EQ(device->name(), "shm0");
}

TEST(ShmDevice, DevicesOfOneDirectoryShareAFabric) {
  FabricDirectory directory, elsewhere;
  auto one = open_device(directory, 1), two = open_device(directory, 2);
  auto other = open_device(elsewhere, 3);
  EXPECT_EQ(one->fabric(), two->fabric());
  EXPECT_NE(one->fabric(), other->fabric());
  EXPECT_TRUE(one->reachable(two->ports()[0].gid));
  EXPECT_FALSE(one->reachable(other->ports()[0].gid));
  EXPECT_FALSE(one->reachable(Gid{}));
  EXPECT_FALSE(one->reachable(ShmDevice::gid_of(one->fabric(), PortNumber(1), peer_id(9))));
  two.reset();
  EXPECT_FALSE(one->reachable(ShmDevice::gid_of(one->fabric(), PortNumber(1), peer_id(2))));
}

TEST(ShmDevice, LeavesNothingBehindButTheIdentity) {
  FabricDirectory directory;
  FabricId fabric;
  {
    auto one = open_device(directory, 1), two = open_device(directory, 2);
    fabric = one->fabric();
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory.path()))
    names.push_back(entry.path().filename());
  EXPECT_EQ(names, std::vector<std::string>{"fabric"});
  EXPECT_EQ(open_device(directory, 3)->fabric(), fabric);
}

TEST(ShmDevice, RefusesWhatCannotBeOpened) {
  FabricDirectory directory;
  auto code = [&](const ShmOptions& options) {
    auto device = ShmDevice::open(options);
    return device ? std::optional<Errc>() : device.error().code;
  };
  const std::string& path = directory.path();
  EXPECT_EQ(code({.directory = path}), Errc::kUnsupported);
  EXPECT_EQ(code({.directory = path, .peer_id = peer_id(1), .ports = 0}), Errc::kUnsupported);
  EXPECT_EQ(code({.directory = path, .peer_id = peer_id(1), .ports = kPortsMax + 1}),
            Errc::kUnsupported);
  EXPECT_EQ(code({.directory = path + std::string(100, 'x'), .peer_id = peer_id(1)}),
            Errc::kUnsupported);
  EXPECT_TRUE(code({.directory = "/proc/no/such", .peer_id = peer_id(1)}));
  std::ofstream(path + "/file") << "x";
  EXPECT_TRUE(code({.directory = path + "/file", .peer_id = peer_id(1)}));
  auto first = open_device(directory, 1);
  ASSERT_TRUE(first);
  EXPECT_EQ(code({.directory = path, .peer_id = peer_id(1)}), Errc::kWrongState);
  EXPECT_FALSE(code({.directory = path + "/made/on/demand", .peer_id = peer_id(1)}));
}

TEST(ShmDevice, DamagedIdentityIsAnError) {
  FabricDirectory directory;
  for (std::size_t size : {0u, 15u, 17u}) {
    std::ofstream(directory.path() + "/fabric") << std::string(size, 'x');
    auto device = ShmDevice::open({.directory = directory.path(), .peer_id = peer_id(1)});
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, Errc::kMalformed);
  }
}

TEST(ShmDevice, SweepsSocketsOfTheDeadOnly) {
  FabricDirectory directory;
  auto living = open_device(directory, 1);
  const std::string dead = directory.path() + "/00000000000000aa.sock";
  const std::string stranger = directory.path() + "/something.sock";
  for (const std::string& path : {dead, stranger}) {
    FileDescriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  auto other = open_device(directory, 2);
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(stranger));
  EXPECT_TRUE(living->reachable(other->ports()[0].gid));
  EXPECT_TRUE(other->reachable(living->ports()[0].gid));
}

TEST(ShmDevice, LimitsAreErrorsNotCrashes) {
  FabricDirectory directory;
  auto device = open_device(directory, 1);
  Endpoint end(*device, 16);
  const QueuePairOptions options{
      .domain = &end.domain(), .receive_queue = &end.receive_queue(), .send_requests = 4};
  std::vector<std::unique_ptr<QueuePair>> queue_pairs;
  std::vector<std::uint32_t> numbers;
  for (;;) {
    auto made = device->create_queue_pair(options);
    if (!made) {
      EXPECT_EQ(made.error().code, Errc::kExhausted);
      break;
    }
    EXPECT_LT((*made)->number().value, 1u << 24);
    numbers.push_back((*made)->number().value);
    queue_pairs.push_back(std::move(*made));
  }
  EXPECT_EQ(queue_pairs.size(), kQueuePairsMax);
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(std::unique(numbers.begin(), numbers.end()), numbers.end());
  queue_pairs.pop_back();
  EXPECT_TRUE(device->create_queue_pair(options));
  auto refused = [&](QueuePairOptions changed) {
    auto made = device->create_queue_pair(changed);
    return !made;
  };
  QueuePairOptions wrong = options;
  wrong.send_requests = 0;
  EXPECT_TRUE(refused(wrong));
  wrong.send_requests = kSendRequestsMax + 1;
  EXPECT_TRUE(refused(wrong));
  wrong = options;
  wrong.port = PortNumber(2);
  EXPECT_TRUE(refused(wrong));
  EXPECT_FALSE(device->create_shared_receive_queue(end.domain(), 0));
  EXPECT_FALSE(device->create_shared_receive_queue(end.domain(), kReceiveRequestsMax + 1));
  EXPECT_FALSE(device->allocate_buffer(end.domain(), 0, BufferUse::kRmb));
  EXPECT_FALSE(device->allocate_buffer(end.domain(), kBufferBytesMax + 1, BufferUse::kRmb));
}

}  // namespace
}  // namespace fairlead::rdma::shm
