// The link to a broker that is played by the test.
#include "rdma/shm/shm_broker_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/unix_address.h"
#include "conformance/shm_device_pair.h"

namespace fairlead::rdma::shm {
namespace {

using broker::Message;
using Kind = broker::Message::Kind;
using State = BrokerLink::State;

constexpr FabricId kFabric{{1, 2, 3, 4, 5}};
constexpr FabricId kOtherFabric{{1, 2, 3, 4, 6}};

// Listens at a name of its own and says what the test wants.
class PlayedBroker {
 public:
  PlayedBroker() { listen(); }
  void listen() {
    const auto address = unix_name(name);
    listener.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_EQ(::bind(listener.get(), address->get(), address->length_bytes), 0);
    ASSERT_EQ(::listen(listener.get(), 8), 0);
  }
  FileDescriptor accept() {
    return FileDescriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  // Takes in a device: the socket to it.
  FileDescriptor welcome(PeerId peer, FabricId fabric = kFabric) {
    FileDescriptor device = accept();
    const auto received = broker::receive(device.get());
    EXPECT_TRUE(received);
    if (received) {
      EXPECT_EQ(received->message, (Message{.kind = Kind::kRegister, .peer = peer}));
    }
    EXPECT_TRUE(broker::send(device.get(), {.kind = Kind::kWelcome, .fabric = fabric}));
    return device;
  }

  const std::string name = "@fairlead-link-test-" + std::to_string(::getpid());
  FileDescriptor listener;
};

std::unique_ptr<BrokerLink> open_link(const PlayedBroker& broker, PeerId peer) {
  auto link = BrokerLink::open(broker.name, peer);
  EXPECT_TRUE(link) << to_string(link.error());
  return link ? std::move(*link) : nullptr;
}

TEST(ShmBrokerLink, IsUpWhenItIsWelcome) {
  PlayedBroker broker;
  const auto link = open_link(broker, peer_id(1));
  EXPECT_EQ(link->greet(), State::kGreeting);
  EXPECT_EQ(link->dial(peer_id(2)).error().code, Errc::kPeerGone);
  const FileDescriptor device = broker.welcome(peer_id(1));
  EXPECT_EQ(link->greet(), State::kUp);
  EXPECT_EQ(link->id(), kFabric);
  EXPECT_TRUE(link->may_reach(peer_id(2)));
  EXPECT_EQ(link->accept().error().code, Errc::kWouldBlock);
}

TEST(ShmBrokerLink, NobodyThereIsAnError) {
  EXPECT_EQ(BrokerLink::open("@fairlead-nobody-is-here", peer_id(1)).error().code, Errc::kPeerGone);
  EXPECT_EQ(BrokerLink::open("/no/such/socket", peer_id(1)).error().code, Errc::kPeerGone);
  EXPECT_EQ(BrokerLink::open(std::string(200, 'x'), peer_id(1)).error().code, Errc::kUnsupported);
}

TEST(ShmBrokerLink, RefusalOfOurselvesTakesItDown) {
  PlayedBroker broker;
  const auto link = open_link(broker, peer_id(1));
  const FileDescriptor device = broker.accept();
  ASSERT_TRUE(broker::send(
      device.get(),
      {.kind = Kind::kRefused, .refusal = broker::Refusal::kTaken, .peer = peer_id(1)}));
  EXPECT_EQ(link->greet(), State::kDown);
  EXPECT_STREQ(link->trouble(), "the broker refuses us: our peer id is taken");
}

TEST(ShmBrokerLink, WordsThatDoNotBelongThereTakeItDown) {
  for (const Kind kind : {Kind::kWelcome, Kind::kRegister, Kind::kIntroduce}) {
    PlayedBroker broker;
    const auto link = open_link(broker, peer_id(1));
    const FileDescriptor device = broker.welcome(peer_id(1));
    ASSERT_EQ(link->greet(), State::kUp);
    ASSERT_TRUE(broker::send(device.get(), {.kind = kind, .peer = peer_id(2), .fabric = kFabric}));
    EXPECT_EQ(link->accept().error().code, Errc::kPeerGone);
    EXPECT_EQ(link->state(), State::kDown);
    EXPECT_FALSE(link->may_reach(peer_id(2)));
  }
}

TEST(ShmBrokerLink, ComesBackAndKnowsItsFabric) {
  PlayedBroker broker;
  const auto link = open_link(broker, peer_id(1));
  broker.welcome(peer_id(1));  // and hangs up
  EXPECT_EQ(link->greet(), State::kUp);
  EXPECT_EQ(link->accept().error().code, Errc::kPeerGone);
  EXPECT_EQ(link->state(), State::kDown);
  broker.listener.reset();
  link->reconnect();
  EXPECT_EQ(link->state(), State::kDown);
  broker.listen();
  link->reconnect();
  const FileDescriptor again = broker.welcome(peer_id(1));
  EXPECT_EQ(link->accept().error().code, Errc::kWouldBlock);
  EXPECT_EQ(link->state(), State::kUp);
}

TEST(ShmBrokerLink, AnotherFabricIsNotTaken) {
  PlayedBroker broker;
  const auto link = open_link(broker, peer_id(1));
  broker.welcome(peer_id(1));
  EXPECT_EQ(link->greet(), State::kUp);
  EXPECT_EQ(link->accept().error().code, Errc::kPeerGone);
  link->reconnect();
  const FileDescriptor again = broker.welcome(peer_id(1), kOtherFabric);
  EXPECT_EQ(link->accept().error().code, Errc::kPeerGone);
  EXPECT_EQ(link->state(), State::kMigrated);
  EXPECT_EQ(link->id(), kFabric);
}

}  // namespace
}  // namespace fairlead::rdma::shm
