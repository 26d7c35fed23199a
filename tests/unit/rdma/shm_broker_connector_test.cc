// The connector with a broker that the test implements.
#include "rdma/shm/connect/shm_broker_connector.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "unit/rdma/played_broker.h"

namespace fairlead::rdma::shm {
namespace {

using broker::Message;
using broker::Request;
using Kind = broker::Message::Kind;
using State = BrokerConnector::State;

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
  const auto address = UnixAddress::parse(connector_name() + "-7");
  FileDescriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_EQ(::bind(listener.get(), address->data(), address->size()), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::connect(probe.get(), address->data(), address->size()), 0);
  const FileDescriptor accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const int fd = listener.get();
  EXPECT_EQ(broker::send(accepted.get(), {.kind = Kind::kBlank}, std::span(&fd, 1)).error().code,
            Errc::kPeerGone);
  EXPECT_EQ(broker::send(accepted.get(), {.kind = Kind::kRoom}).error().code, Errc::kPeerGone);
}

TEST(ShmBrokerConnector, OnlyTheUserOfTheBrokerIsListenedTo) {
  auto connector = BrokerConnector::open(connector_name(), peer_id(1), ::geteuid() + 1);
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
  Wakeups wakeups(broker);
  EXPECT_TRUE(wakeups.any());  // by the registration
  connector->flush();
  EXPECT_FALSE(wakeups.any());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(connector->request_channel(peer_id(2)));
    EXPECT_TRUE(wakeups.any()) << i;
    EXPECT_FALSE(wakeups.any()) << i;
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
