// What a handshake holds of the worker's limits: it is counted once, stands in line for its turn,
// and gives all of it back at its end, wherever the permit has been moved.

#include "relay/connection/handshake_permit.h"

#include "driver_parts.h"

namespace fairlead::relay {
namespace {

const SocketAddress kClient = *SocketAddress::parse("192.0.2.1:5000");
const SocketAddress kPeer = *SocketAddress::parse("192.0.2.9:80");

class Host final : public SessionHost {
 public:
  void mark_ready(Session&) override {}
  void retire(Session&) override {}
  void grant_permit(std::uint64_t session) override { granted.push_back(session); }
  bool many_active() const override { return false; }
  std::vector<std::uint64_t> granted;
};

class NoUsers final : public DeviceUsers {
 public:
  bool uses(const DeviceSlot&) const override { return false; }
};

// Reaches nobody.
class NoNetwork final : public Network {
 public:
  TimePoint now() const override { return {}; }
  std::chrono::system_clock::time_point wall_now() const override { return {}; }
  Result<ApplicationLeg> dial_application(const SocketAddress&, const SocketAddress&,
                                          unsigned) override {
    return Error{Errc::kNotFound, "application"};
  }
  Result<std::unique_ptr<event::Stream>> dial_peer(const SocketAddress&, bpf::Announced,
                                                   const SocketAddress*, unsigned) override {
    return Error{Errc::kNotFound, "peer"};
  }
  void probe_peer(event::Stream&) override {}
  bool option_available() const override { return false; }
  bpf::Announced option_answered(event::Stream&) override { return {}; }
  bpf::Announced option_requested(event::Stream&) override { return {}; }
};

class HandshakePermitTest : public testing::Test, protected WorkerResources {
 protected:
  static constexpr std::size_t kHandshakes = 3;

  std::size_t free_handshakes() {
    std::size_t count = 0;
    while (admission.begin_handshake()) ++count;
    for (std::size_t i = 0; i < count; ++i) admission.end_handshake(std::nullopt);
    return count;
  }
  HandshakePermit permit(std::uint64_t session) { return {services, session}; }

  Host host;
  config::Config config;
  smc::LocalOffer offer;
  LocalSubnetsOf subnets;
  NoNetwork network;
  NoUsers users;
  Admission admission{{.handshakes_max = kHandshakes}, budget, stats, clock, shared.lines};
  LinkGroupRegistry groups{shared, 0, 7};
  DeviceRegistry devices{config, offer.peer_id, groups, shared, users};
  FallbackLog fallbacks;
  DecisionLog decisions;
  AnnouncingPeers announcing;
  TcpRelayResources tcp;
  SessionServices services{host,   config,    offer,        subnets,    network,
                           timers, stats,     shared.lines, admission,  devices,
                           groups, fallbacks, decisions,    announcing, tcp};
};

TEST_F(HandshakePermitTest, AHandshakeIsCountedOnceUntilItsPermitGoes) {
  {
    HandshakePermit held = permit(1);
    EXPECT_EQ(free_handshakes(), kHandshakes);
    EXPECT_TRUE(held.count());
    EXPECT_TRUE(held.count());
    EXPECT_EQ(free_handshakes(), kHandshakes - 1);
  }
  EXPECT_EQ(free_handshakes(), kHandshakes);
}

TEST_F(HandshakePermitTest, AHandshakeBeyondTheLimitHoldsNothing) {
  for (std::size_t i = 0; i < kHandshakes; ++i) ASSERT_TRUE(admission.begin_handshake());
  {
    HandshakePermit refused = permit(1);
    EXPECT_FALSE(refused.count());
    EXPECT_FALSE(refused.count(kClient));
    admission.end_handshake(std::nullopt);
    EXPECT_TRUE(refused.count()) << "it may try again";
  }
  EXPECT_EQ(free_handshakes(), 1U);
}

TEST_F(HandshakePermitTest, TheShareOfTheClientIsGivenBack) {
  for (int i = 0; i < 10; ++i) {
    HandshakePermit first = permit(1), second = permit(2);
    ASSERT_TRUE(first.count(kClient)) << i;
    ASSERT_TRUE(second.count(kClient)) << i;
    HandshakePermit third = permit(3);
    EXPECT_FALSE(third.count(kClient)) << "one is left for others";
  }
}

TEST_F(HandshakePermitTest, AMovedPermitIsGivenBackOnce) {
  HandshakePermit other = permit(2);
  {
    std::optional<HandshakePermit> first = permit(1);
    ASSERT_TRUE(first->count(kClient) && first->acquire(kPeer));
    HandshakePermit second = std::move(*first);
    first.reset();
    EXPECT_EQ(free_handshakes(), kHandshakes - 1);
    EXPECT_TRUE(second.held());
    EXPECT_FALSE(other.acquire(kPeer));
    EXPECT_TRUE(host.granted.empty());
  }
  EXPECT_EQ(free_handshakes(), kHandshakes);
  EXPECT_EQ(host.granted, std::vector<std::uint64_t>{2});
}

TEST_F(HandshakePermitTest, TheLineIsServedInItsOrder) {
  HandshakePermit second = permit(2), third = permit(3);
  {
    HandshakePermit first = permit(1);
    EXPECT_FALSE(first.held());
    EXPECT_TRUE(first.acquire(kPeer));
    EXPECT_TRUE(first.held());
    EXPECT_FALSE(second.acquire(kPeer));
    EXPECT_FALSE(third.acquire(kPeer));
    EXPECT_TRUE(second.waiting());
    EXPECT_FALSE(second.held());
  }
  ASSERT_EQ(host.granted, std::vector<std::uint64_t>{2});
  second.granted();
  EXPECT_TRUE(second.held());
  EXPECT_FALSE(second.waiting());
  second.release();
  EXPECT_FALSE(second.held());
  EXPECT_EQ(host.granted, (std::vector<std::uint64_t>{2, 3}));
  second.release();
  EXPECT_EQ(host.granted.size(), 2U) << "it has none any more";
}

TEST_F(HandshakePermitTest, WhoGoesWhileInLineLeavesIt) {
  HandshakePermit first = permit(1), third = permit(3);
  ASSERT_TRUE(first.acquire(kPeer));
  {
    HandshakePermit second = permit(2);
    EXPECT_FALSE(second.acquire(kPeer));
    EXPECT_FALSE(third.acquire(kPeer));
  }
  EXPECT_TRUE(host.granted.empty());
  first.release();
  EXPECT_EQ(host.granted, std::vector<std::uint64_t>{3});
}

TEST_F(HandshakePermitTest, AMovedPlaceInLineIsKept) {
  HandshakePermit first = permit(1);
  ASSERT_TRUE(first.acquire(kPeer));
  std::optional<HandshakePermit> second = permit(2);
  EXPECT_FALSE(second->acquire(kPeer));
  const HandshakePermit moved = std::move(*second);
  second.reset();
  EXPECT_TRUE(moved.waiting());
  first.release();
  EXPECT_EQ(host.granted, std::vector<std::uint64_t>{2});
}

}  // namespace
}  // namespace fairlead::relay
