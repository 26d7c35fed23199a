// What a device says of itself, and which requests it refuses.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <thread>

#include "broker/shared_objects.h"
#include "rdma/shm/shm_device.h"
#include "unit/rdma/shm_device_test.h"

namespace fairlead::rdma::shm {
namespace {

constexpr PeerId kSelf{{1, 2, 3, 4, 5, 6, 7, 8}};
constexpr PeerId kFriend{{9}};

class ShmDeviceOptions : public testing::Test {
 protected:
  void open(unsigned ports = 1, bool addressable = true) {
    connector_ = new ScriptedConnector;
    device_ =
        std::move(ShmDevice::open({.peer_id = kSelf, .ports = ports, .addressable = addressable},
                                  std::unique_ptr<Connector>(connector_))
                      .value());
  }
  static bool opens(unsigned ports, PeerId self) {
    const auto device =
        ShmDevice::open({.peer_id = self, .ports = ports}, std::make_unique<ScriptedConnector>());
    EXPECT_TRUE(device || device.error().code == Errc::kUnsupported);
    return device.has_value();
  }
  Gid gid_of_friend() const { return gid_of(device_->fabric(), PortNumber(1), kFriend); }

  // A channel that kFriend has asked for.
  FarSide take_in_channel() {
    auto ends = std::move(broker::make_channel(sizeof(ChannelMemory)).value());
    ConnectorEvent event;
    event.kind = ConnectorEvent::Kind::kChannel;
    event.peer = kFriend;
    event.side = 1;
    event.end = std::move(ends[1]);
    connector_->arrivals.emplace_back(std::move(event));
    device_->handle_readable(ScriptedConnector::kDescriptor);
    return FarSide(far_budget_, Channel::Side::kDialler, std::move(ends[0]));
  }

  MapBudget far_budget_;
  ScriptedConnector* connector_ = nullptr;  // owned by the device
  std::unique_ptr<ShmDevice> device_;
};

TEST_F(ShmDeviceOptions, HasOneToFourPortsAndAnId) {
  EXPECT_FALSE(opens(0, kSelf));
  EXPECT_TRUE(opens(1, kSelf));
  EXPECT_TRUE(opens(kPortsMax, kSelf));
  EXPECT_FALSE(opens(kPortsMax + 1, kSelf));
  EXPECT_FALSE(opens(1, PeerId{}));
}

TEST_F(ShmDeviceOptions, PortsHaveAddressesOfTheirOwn) {
  open(3);
  EXPECT_EQ(device_->name(), "shm0");
  ASSERT_EQ(device_->ports().size(), 3u);
  std::uint8_t number = 0;
  for (const Port& port : device_->ports()) {
    ++number;
    EXPECT_EQ(port.number, PortNumber(number));
    EXPECT_EQ(port.state, PortState::kActive);
    EXPECT_EQ(port.mtu, Mtu::k4096);
    EXPECT_EQ(port.gid, gid_of(device_->fabric(), port.number, kSelf));
    EXPECT_EQ(port.mac, (Mac{{0x02, 5, 6, 7, 8, number}}));
  }
}

TEST_F(ShmDeviceOptions, ReturnsPagesOnlyWherePeersAreAddressed) {
  const FileDescriptor memory = std::move(broker::make_memory("test", 4096).value());
  const Mapping view = std::move(Mapping::map(memory.get(), 4096).value());
  view.bytes()[0] = std::byte{1};
  for (const bool addressable : {false, true}) {
    open(1, addressable);
    EXPECT_EQ(device_->capabilities().remote_memory_addressable, addressable);
    const bool returns = addressable && !strict_overcommit();
    EXPECT_EQ(device_->capabilities().returns_pages, returns);
    const auto returned = device_->return_pages(view.bytes());
    EXPECT_EQ(returned != nullptr, returns);
    while (returned != nullptr && view.bytes()[0] != std::byte{0}) std::this_thread::yield();
    EXPECT_EQ(view.bytes()[0] == std::byte{0}, returns);
  }
}

TEST_F(ShmDeviceOptions, ReachesWhoeverTheConnectorOrAChannelReaches) {
  open();
  EXPECT_FALSE(device_->reachable(Gid{}));
  EXPECT_FALSE(device_->reachable(gid_of(FabricId{{9, 9, 9, 9, 9}}, PortNumber(1), kFriend)));
  EXPECT_TRUE(device_->reachable(gid_of_friend()));
  connector_->reachable = false;
  EXPECT_FALSE(device_->reachable(gid_of_friend()));
  const FarSide far = take_in_channel();
  EXPECT_TRUE(device_->reachable(gid_of_friend()));
}

TEST_F(ShmDeviceOptions, AnOperatorTakesPortsThatAreThere) {
  open(2);
  EXPECT_FALSE(device_->take_port(PortNumber(0), PortState::kDown));
  EXPECT_FALSE(device_->take_port(PortNumber(3), PortState::kDown));
  EXPECT_FALSE(device_->pending());
  EXPECT_TRUE(device_->take_port(PortNumber(2), PortState::kDown));
  EXPECT_EQ(device_->ports()[0].state, PortState::kActive);
  EXPECT_EQ(device_->ports()[1].state, PortState::kDown);
  const auto event = device_->poll_async_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, AsyncEvent::Kind::kPortDown);
  EXPECT_EQ(event->port, PortNumber(2));
  EXPECT_TRUE(device_->take_port(PortNumber(1), PortState::kDown));
  EXPECT_EQ(device_->ports()[0].state, PortState::kDown);
}

TEST_F(ShmDeviceOptions, QueuesHaveLimits) {
  open(2);
  const auto domain = std::move(device_->create_protection_domain().value());
  const auto receives = [&](std::uint32_t count) {
    return device_->create_shared_receive_queue(*domain, count);
  };
  EXPECT_EQ(receives(0).error().code, Errc::kExhausted);
  EXPECT_TRUE(receives(1));
  EXPECT_TRUE(receives(kReceiveRequestsMax));
  EXPECT_EQ(receives(kReceiveRequestsMax + 1).error().code, Errc::kExhausted);
  const auto queue = std::move(receives(4).value());
  const auto queue_pair = [&](std::uint8_t port, std::uint32_t send_requests) {
    return device_->create_queue_pair({.domain = domain.get(),
                                       .receive_queue = queue.get(),
                                       .port = PortNumber(port),
                                       .send_requests = send_requests});
  };
  EXPECT_EQ(queue_pair(1, 0).error().code, Errc::kExhausted);
  EXPECT_TRUE(queue_pair(1, 1));
  EXPECT_TRUE(queue_pair(2, kSendRequestsMax));
  EXPECT_EQ(queue_pair(1, kSendRequestsMax + 1).error().code, Errc::kExhausted);
  EXPECT_EQ(queue_pair(0, 1).error().code, Errc::kNotFound);
  EXPECT_EQ(queue_pair(3, 1).error().code, Errc::kNotFound);
  EXPECT_EQ(device_->capabilities().send_requests_max, kSendRequestsMax);
  EXPECT_EQ(device_->capabilities().receive_requests_max, kReceiveRequestsMax);
}

// Packets of one connection are then not valid in another one with the same peer.
TEST_F(ShmDeviceOptions, QueuePairsBeginWithSequenceNumbersOfTheirOwn) {
  open();
  const auto domain = std::move(device_->create_protection_domain().value());
  const auto queue = std::move(device_->create_shared_receive_queue(*domain, 4).value());
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 100; ++i) {
    const auto made = std::move(
        device_->create_queue_pair({.domain = domain.get(), .receive_queue = queue.get()}).value());
    EXPECT_LT(made->first_psn().value, 1u << 24);
    seen.insert(made->first_psn().value);
  }
  EXPECT_EQ(seen.size(), 100u);
}

}  // namespace
}  // namespace fairlead::rdma::shm
