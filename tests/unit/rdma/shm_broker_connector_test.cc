// The connector with a broker that the test implements.
#include "rdma/shm/shm_broker_connector.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "base/unix_address.h"
#include "conformance/shm_device_pair.h"
#include "rdma/shm/shm_channel_memory.h"

namespace fairlead::rdma::shm {
namespace {

using broker::Message;
using broker::Request;
using Kind = broker::Message::Kind;
using State = BrokerConnector::State;

constexpr FabricId kFabric{{1, 2, 3, 4, 5}};
constexpr FabricId kOtherFabric{{1, 2, 3, 4, 6}};

const std::string& name() {
  static const std::string made = "@fairlead-connector-test-" + std::to_string(::getpid());
  return made;
}

// Connects to the device of index 0 and sends given records.
class PlayedBroker {
 public:
  explicit PlayedBroker(std::uint64_t instance = 7) : instance_(instance) {
    const auto address = unix_name(name() + "-0");
    socket.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::shutdown(socket.get(), SHUT_RD), 0);
    EXPECT_EQ(::connect(socket.get(), address->get(), address->length_bytes), 0);
  }
  void give_ring() {
    const FileDescriptor memory =
        std::move(broker::make_memory("ring", broker::kRequestRingBytes).value());
    ring_ = std::move(broker::map_request_ring(memory.get()).value());
    requests.emplace(*ring_);
    EXPECT_TRUE(say({.kind = Kind::kRequestRing, .buffer = {instance_, 0}}, {memory.get()}));
  }
  bool say(const Message& message, std::vector<int> fds = {}) {
    return broker::send(socket.get(), message, fds).has_value();
  }
  // Takes in the device.
  void welcome(BrokerConnector& connector, FabricId fabric = kFabric) {
    give_ring();
    EXPECT_EQ(connector.poll_registration(), State::kRegistering);
    EXPECT_EQ(
        requests->take(),
        (Request{Request::Kind::kRegister, kChannelLayout, sizeof(ChannelMemory), peer_id(1), {}}));
    EXPECT_TRUE(say({.kind = Kind::kWelcome, .peer = peer_id(1), .fabric = fabric}));
  }
  void give_blank(std::uint64_t number) {
    const FileDescriptor blank = std::move(broker::make_blank().value());
    EXPECT_TRUE(say({.kind = Kind::kBlank, .buffer = {instance_, number}}, {blank.get()}));
  }

  FileDescriptor socket;
  std::optional<broker::RequestReader> requests;

 private:
  std::uint64_t instance_;
  broker::RequestRingMapping ring_;
};

std::unique_ptr<BrokerConnector> open_connector() {
  auto connector = BrokerConnector::open(name(), peer_id(1), ::geteuid());
  EXPECT_TRUE(connector);
  return connector ? std::move(*connector) : nullptr;
}

TEST(ShmBrokerConnector, IsRegisteredWhenItIsWelcome) {
  const auto connector = open_connector();
  EXPECT_EQ(connector->poll_registration(), State::kListening);
  EXPECT_EQ(connector->request_channel(peer_id(2)).error().code, Errc::kPeerGone);
  PlayedBroker broker;
  broker.welcome(*connector);
  EXPECT_EQ(connector->poll_registration(), State::kRegistered);
  EXPECT_EQ(connector->id(), kFabric);
  EXPECT_TRUE(connector->may_reach(peer_id(2)));
  EXPECT_EQ(connector->next().error().code, Errc::kWouldBlock);
}

TEST(ShmBrokerConnector, TakesTheFirstFreeIndex) {
  const auto first = open_connector(), second = open_connector();
  ASSERT_TRUE(second);
  PlayedBroker broker;
  EXPECT_EQ(second->poll_registration(), State::kListening);
  EXPECT_EQ(first->poll_registration(), State::kRegistering);
  EXPECT_EQ(BrokerConnector::open(std::string(200, 'x'), peer_id(1)).error().code,
            Errc::kUnsupported);
}

TEST(ShmBrokerConnector, NothingCanBeSentToTheBroker) {
  const auto connector = open_connector();
  FileDescriptor probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_EQ(::shutdown(probe.get(), SHUT_RD), 0);
  const auto address = unix_name(name() + "-7");
  FileDescriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_EQ(::bind(listener.get(), address->get(), address->length_bytes), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::connect(probe.get(), address->get(), address->length_bytes), 0);
  const FileDescriptor accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const int fd = listener.get();
  EXPECT_EQ(broker::send(accepted.get(), {.kind = Kind::kBlank}, std::span(&fd, 1)).error().code,
            Errc::kPeerGone);
  EXPECT_EQ(broker::send(accepted.get(), {.kind = Kind::kRoom}).error().code, Errc::kPeerGone);
}

TEST(ShmBrokerConnector, OnlyTheUserOfTheBrokerIsListenedTo) {
  auto connector = BrokerConnector::open(name(), peer_id(1), ::geteuid() + 1);
  ASSERT_TRUE(connector);
  PlayedBroker broker;
  EXPECT_EQ((*connector)->poll_registration(), State::kListening);
}

TEST(ShmBrokerConnector, RefusalOfOurselvesTakesItDown) {
  const auto connector = open_connector();
  PlayedBroker broker;
  broker.give_ring();
  ASSERT_TRUE(
      broker.say({.kind = Kind::kRefused, .refusal = broker::Refusal::kTaken, .peer = peer_id(1)}));
  EXPECT_EQ(connector->poll_registration(), State::kDown);
  EXPECT_STREQ(connector->error_text(), "the broker refuses us: our peer id is taken");
}

TEST(ShmBrokerConnector, WordsThatDoNotBelongThereTakeItDown) {
  for (const Kind kind : {Kind::kWelcome, Kind::kRequestRing}) {
    const auto connector = open_connector();
    PlayedBroker broker;
    broker.welcome(*connector);
    ASSERT_EQ(connector->poll_registration(), State::kRegistered);
    if (kind == Kind::kRequestRing)
      broker.give_ring();
    else
      ASSERT_TRUE(broker.say({.kind = kind, .peer = peer_id(2), .fabric = kFabric}));
    EXPECT_EQ(connector->next().error().code, Errc::kPeerGone);
    EXPECT_EQ(connector->next().error().code, Errc::kWouldBlock);
    EXPECT_EQ(connector->state(), State::kDown);
    EXPECT_FALSE(connector->may_reach(peer_id(2)));
  }
}

TEST(ShmBrokerConnector, TheNextBrokerIsTakenUpWithAStockOfItsOwn) {
  const auto connector = open_connector();
  std::optional<BufferId> old;
  {
    PlayedBroker broker(7);
    broker.welcome(*connector);
    broker.give_blank(1);
    broker.give_blank(2);
    EXPECT_EQ(connector->poll_registration(), State::kRegistered);
    auto taken = connector->take_buffer();
    ASSERT_TRUE(taken);
    old = taken->id;
    EXPECT_EQ(broker.requests->take()->kind, Request::Kind::kTake);
    EXPECT_TRUE(connector->grant(*old, peer_id(2)));
  }
  EXPECT_EQ(connector->poll_registration(), State::kDown);
  EXPECT_EQ(connector->next().error().code, Errc::kPeerGone);
  EXPECT_EQ(connector->take_buffer().error().code, Errc::kExhausted);
  PlayedBroker broker(8);
  broker.welcome(*connector);
  broker.give_blank(1);
  EXPECT_EQ(connector->poll_registration(), State::kRegistered);
  // Buffers of the old broker are unknown to the new one.
  EXPECT_EQ(connector->grant(*old, peer_id(2)).error().code, Errc::kPeerGone);
  connector->free_buffer(*old);
  EXPECT_EQ(broker.requests->take().error().code, Errc::kWouldBlock);
  const auto taken = connector->take_buffer();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->id, (BufferId{8, 1}));
}

TEST(ShmBrokerConnector, AnEmptyStockIsWaitedForOnceInAWhile) {
  const auto connector = open_connector();
  PlayedBroker broker;
  broker.welcome(*connector);
  EXPECT_EQ(connector->poll_registration(), State::kRegistered);
  EXPECT_EQ(connector->take_buffer().error().code, Errc::kExhausted);
  broker.give_blank(1);
  EXPECT_TRUE(connector->take_buffer());  // it is there already
}

TEST(ShmBrokerConnector, RequestsBeyondTheRingWaitForRoom) {
  const auto connector = open_connector();
  PlayedBroker broker;
  broker.welcome(*connector);
  EXPECT_EQ(connector->poll_registration(), State::kRegistered);
  for (std::uint64_t i = 0; i < 2 * broker::kRequestSlots; ++i)
    ASSERT_TRUE(connector->request_channel(peer_id(2)));
  EXPECT_TRUE(connector->backlog());
  std::uint64_t heard = 0;
  while (broker.requests->take()) ++heard;
  EXPECT_EQ(heard, broker::kRequestSlots);
  EXPECT_TRUE(broker.requests->take_wish());
  ASSERT_TRUE(broker.say({.kind = Kind::kRoom}));
  EXPECT_EQ(connector->next().error().code, Errc::kWouldBlock);
  while (broker.requests->take()) ++heard;
  EXPECT_EQ(heard, 2 * broker::kRequestSlots);
}

// The broker looks at a ring only when it is woken.
TEST(ShmBrokerConnector, ARequestWakesTheBroker) {
  const auto connector = open_connector();
  PlayedBroker broker;
  broker.welcome(*connector);
  EXPECT_EQ(connector->poll_registration(), State::kRegistered);
  const FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
  ASSERT_EQ(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, broker.socket.get(), &event), 0);
  const auto woken = [&] { return ::epoll_wait(epoll.get(), &event, 1, 0) == 1; };
  EXPECT_TRUE(woken());  // by the registration
  connector->flush();
  EXPECT_FALSE(woken());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(connector->request_channel(peer_id(2)));
    EXPECT_TRUE(woken()) << i;
    EXPECT_FALSE(woken()) << i;
  }
}

TEST(ShmBrokerConnector, AnotherFabricIsNotTaken) {
  const auto connector = open_connector();
  {
    PlayedBroker broker;
    broker.welcome(*connector);
    EXPECT_EQ(connector->poll_registration(), State::kRegistered);
  }
  EXPECT_EQ(connector->next().error().code, Errc::kPeerGone);
  PlayedBroker broker;
  broker.welcome(*connector, kOtherFabric);
  EXPECT_EQ(connector->poll_registration(), State::kFabricChanged);
  EXPECT_EQ(connector->id(), kFabric);
}

}  // namespace
}  // namespace fairlead::rdma::shm
