// A broker that a test plays: it connects to the device of index 0 and says what it is told.
#pragma once

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/linux/unix_address.h"
#include "broker/request_ring.h"
#include "broker/shared_objects.h"
#include "conformance/shm_device_pair.h"
#include "rdma/shm/channel/shm_channel_memory.h"
#include "rdma/shm/connect/shm_broker_connector.h"

namespace fairlead::rdma::shm {

inline constexpr FabricId kFabric{{1, 2, 3, 4, 5}};
inline constexpr FabricId kOtherFabric{{1, 2, 3, 4, 6}};

inline const std::string& connector_name() {
  static const std::string made = "@fairlead-connector-test-" + std::to_string(::getpid());
  return made;
}

inline std::unique_ptr<BrokerConnector> open_connector() {
  auto connector = BrokerConnector::open(connector_name(), peer_id(1), ::geteuid());
  EXPECT_TRUE(connector);
  return connector ? std::move(*connector) : nullptr;
}

class PlayedBroker {
 public:
  using Message = broker::Message;
  using Request = broker::Request;
  using Kind = Message::Kind;

  explicit PlayedBroker(std::uint64_t instance = 7, unsigned index = 0)
      : PlayedBroker(kLater, instance) {
    connect(index);
  }
  // One that connect() connects.
  enum Later : std::uint8_t { kLater };
  explicit PlayedBroker(Later, std::uint64_t instance = 7)
      : socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
        instance_(instance) {
    EXPECT_EQ(::shutdown(socket.get(), SHUT_RD), 0);
  }
  void connect(unsigned index = 0) {
    const auto address = UnixAddress::parse(connector_name() + "-" + std::to_string(index));
    EXPECT_EQ(::connect(socket.get(), address->data(), address->size()), 0);
  }
  void give_ring() {
    const FileDescriptor memory =
        std::move(broker::make_memory("ring", broker::kRequestRingBytes).value());
    ring = std::move(broker::map_request_ring(memory.get()).value());
    requests.emplace(*ring);
    EXPECT_TRUE(say({.kind = Kind::kRequestRing, .buffer = {instance_, 0}}, {memory.get()}));
  }
  bool say(const Message& message, std::vector<int> fds = {}) {
    return broker::send(socket.get(), message, fds).has_value();
  }
  // Takes in the device.
  void welcome(BrokerConnector& connector, FabricId fabric = kFabric) {
    give_ring();
    EXPECT_EQ(connector.poll_registration(), BrokerConnector::State::kRegistering);
    EXPECT_EQ(
        requests->take(),
        (Request{Request::Kind::kRegister, kChannelLayout, sizeof(ChannelMemory), peer_id(1), {}}));
    EXPECT_TRUE(say({.kind = Kind::kWelcome, .peer = peer_id(1), .fabric = fabric}));
  }
  BufferId buffer(std::uint64_t number) const { return {instance_, number}; }
  void give_blank(std::uint64_t number) {
    const FileDescriptor blank = std::move(broker::make_blank().value());
    EXPECT_TRUE(say({.kind = Kind::kBlank, .buffer = buffer(number)}, {blank.get()}));
  }
  void grant(std::uint64_t number, PeerId owner, std::uint32_t pod = 0) {
    const FileDescriptor memory = std::move(broker::make_memory("granted", 4096).value());
    EXPECT_TRUE(say({.kind = Kind::kGranted, .peer = owner, .buffer = buffer(number), .pod = pod},
                    {memory.get()}));
  }
  // An index of the ring that cannot be.
  void damage_ring() { ring->head.store(std::uint64_t{1} << 40, std::memory_order_seq_cst); }

  FileDescriptor socket;
  broker::RequestRingMapping ring;
  std::optional<broker::RequestReader> requests;

 private:
  std::uint64_t instance_;
};

// Tells whether the broker has been woken since the last look.
class Wakeups {
 public:
  explicit Wakeups(const PlayedBroker& broker) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
    EXPECT_EQ(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, broker.socket.get(), &event), 0);
  }
  bool any() {
    epoll_event event{};
    return ::epoll_wait(epoll_.get(), &event, 1, 0) == 1;
  }
  bool wait(int milliseconds) {
    epoll_event event{};
    return ::epoll_wait(epoll_.get(), &event, 1, milliseconds) == 1;
  }

 private:
  FileDescriptor epoll_;
};

}  // namespace fairlead::rdma::shm
