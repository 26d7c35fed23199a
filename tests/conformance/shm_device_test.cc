// Opening the shared-memory device: its ports, whom it reaches, and its limits.
#include <gtest/gtest.h>

#include <algorithm>

#include "conformance/endpoint.h"
#include "conformance/shm_device_pair.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

TEST(ShmDevice, TellsItsPortsAndGids) {
  TestFabric fabric;
  auto device = open_device(fabric, 7, 2);
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

TEST(ShmDevice, ReachesDevicesOfItsFabric) {
  TestFabric fabric, elsewhere;
  auto one = open_device(fabric, 1), two = open_device(fabric, 2);
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

TEST(ShmDevice, LimitsAreErrorsNotCrashes) {
  TestFabric fabric;
  auto device = open_device(fabric, 1);
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
