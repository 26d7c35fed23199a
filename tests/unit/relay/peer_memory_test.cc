// What connections may write of the peer's memory: the way to an element over each link, who pays
// for it and how long, and when views of it are given up.

#include "relay/group/peer_memory.h"

#include "driver_parts.h"

namespace fairlead::relay {
namespace {

constexpr std::uint32_t kElementBytes = 16384;
constexpr RemoteKey kRkey{9};
constexpr RemoteKey kRkeyOnSecondLink{19};
constexpr RemoteAddress kAddress{0x10000};
constexpr RemoteAddress kAddressOnSecondLink{0x90000};
constexpr smc::RmbKey kKey{kRkey, kAddress};

class PeerMemoryTest : public DriverTest {
 protected:
  PeerMemoryTest() : DriverTest(2) { one.device.able.remote_memory_addressable = true; }

  void SetUp() override {
    confirm_first_link();
    grant(0, kRkey, kAddress);
    receive(announcement(kRkey));
  }
  // The peer lets the link's queue pair write to four elements.
  void grant(smc::LinkIndex link, RemoteKey rkey, RemoteAddress address) {
    queue_pair(link).remote[rkey] = {address, std::vector<std::byte>(4 * kElementBytes)};
  }
  static wire::ConfirmRkey announcement(RemoteKey rkey) {
    wire::ConfirmRkey message;
    message.rkey = rkey;
    message.address = kAddress;
    return message;
  }
  Result<void> check(const wire::LlcBody& body, smc::LinkIndex link = 0) {
    return peer.check(link, {wire::LlcVersion::k2, body});
  }
  // A connection that is to write to the element with this number.
  SmcRelay& add_connection(std::uint64_t element) {
    const AlertToken token = *connections.reserve();
    SmcRelay& relay = *relays.emplace_back(
        std::make_unique<SmcRelay>(token, smc::ElementId{}, own_element, SmcRelay::Place{}));
    connections.set(token, &relay);
    relay.buffers().name_peer({kKey, element * kElementBytes, kElementBytes}, 0);
    return relay;
  }
  void reserve(SmcRelay& relay, std::size_t bytes) {
    Result<MemoryCharge> reserved = peer.reserve(bytes);
    ASSERT_TRUE(reserved);
    relay.buffers().reserved() = std::move(*reserved);
  }
  // … and has its way to it, and has paid.
  SmcRelay& add_writer(std::uint64_t element) {
    SmcRelay& relay = add_connection(element);
    reserve(relay, kElementBytes);
    const auto found = peer.find(relay.buffers(), 0);
    EXPECT_TRUE(found && peer.open(relay, *found) && peer.claim(relay, *found));
    return relay;
  }
  std::size_t paid_bytes() const { return budget.used_bytes(MemoryUse::kPeerRings); }
  std::vector<RemoteKey> released() { return queue_pair(0).released; }

  smc::ConnectionTable<SmcRelay> connections{7};
  std::vector<std::byte> own_element{kElementBytes};
  std::vector<std::unique_ptr<SmcRelay>> relays;
  PeerMemory peer{budget, protocol, transport, connections};
};

TEST_F(PeerMemoryTest, AnElementIsReachedByTheKeyOfEachLink) {
  add_second_link({{kRkey, kRkeyOnSecondLink, kAddressOnSecondLink}});
  const SmcRelay& relay = add_connection(1);
  const auto first = peer.find(relay.buffers(), 0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->rkey, kRkey);
  EXPECT_EQ(first->address.value, kAddress.value + kElementBytes);
  EXPECT_EQ(first->size_bytes, kElementBytes);
  const auto second = peer.find(relay.buffers(), 1);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->rkey, kRkeyOnSecondLink);
  EXPECT_EQ(second->address.value, kAddressOnSecondLink.value + kElementBytes);
}

TEST_F(PeerMemoryTest, WithoutTheKeyOfALinkNothingIsFoundThere) {
  add_second_link();
  SmcRelay& relay = add_connection(0);
  EXPECT_TRUE(peer.find(relay.buffers(), 0));
  EXPECT_EQ(peer.find(relay.buffers(), 1).error().code, Errc::kNotFound);
  relay.buffers().name_peer({{RemoteKey{8}, kKey.address}, 0, kElementBytes}, 0);
  EXPECT_EQ(peer.find(relay.buffers(), 0).error().code, Errc::kNotFound);
}

TEST_F(PeerMemoryTest, AddressableMemoryIsOpenedAsAView) {
  SmcRelay& relay = add_connection(1);
  relay.buffers().name_peer(relay.buffers().peer(), std::nullopt);
  ASSERT_TRUE(peer.open(relay, *peer.find(relay.buffers(), 0)));
  EXPECT_EQ(relay.buffers().remote().data(),
            queue_pair(0).remote[kRkey].bytes.data() + kElementBytes);
  EXPECT_EQ(relay.buffers().remote().size(), kElementBytes);
  EXPECT_EQ(relay.buffers().named_on(), smc::LinkIndex{0});
}

TEST_F(PeerMemoryTest, OtherMemoryIsOpenedByItsKeyAlone) {
  one.device.able.remote_memory_addressable = false;
  SmcRelay& relay = add_connection(1);
  relay.move_to(1);
  const smc::RmbElement element{RemoteKey{3}, RemoteAddress{5 + kElementBytes}, kElementBytes};
  ASSERT_TRUE(peer.open(relay, element));
  EXPECT_TRUE(relay.buffers().remote().empty());
  EXPECT_EQ(relay.buffers().peer().rmb, (smc::RmbKey{RemoteKey{3}, RemoteAddress{5}}));
  EXPECT_EQ(relay.buffers().named_on(), smc::LinkIndex{1});
}

TEST_F(PeerMemoryTest, WhatWasReservedPaysForTheElement) {
  SmcRelay& relay = add_connection(0);
  reserve(relay, 4 * kElementBytes);
  EXPECT_EQ(paid_bytes(), 4U * kElementBytes);
  ASSERT_TRUE(peer.claim(relay, *peer.find(relay.buffers(), 0)));
  EXPECT_EQ(paid_bytes(), kElementBytes);
  EXPECT_EQ(relay.buffers().reserved().bytes(), 0U);
}

TEST_F(PeerMemoryTest, AnElementIsPaidForOnceUntilItsKeyIsDeleted) {
  SmcRelay& first = add_writer(0);
  EXPECT_EQ(paid_bytes(), kElementBytes);
  peer.release(first);
  EXPECT_EQ(paid_bytes(), kElementBytes) << "its pages stay";
  SmcRelay& second = add_writer(0);
  EXPECT_EQ(paid_bytes(), kElementBytes);
  add_writer(1);
  EXPECT_EQ(paid_bytes(), 2U * kElementBytes);
  peer.release(second);
  peer.forget(kRkey);
  EXPECT_EQ(paid_bytes(), kElementBytes) << "the other one is in use";
}

TEST_F(PeerMemoryTest, WhoDoesNotPayKeepsNoView) {
  SmcRelay& relay = add_connection(0);
  const auto element = peer.find(relay.buffers(), 0);
  ASSERT_TRUE(element && peer.open(relay, *element));
  reserve(relay, 1);
  const auto rest = MemoryCharge::take(budget, MemoryUse::kConnections, budget.left_bytes());
  ASSERT_TRUE(rest);
  EXPECT_STREQ(peer.reserve(kElementBytes).error().what, kBudgetSpent);
  EXPECT_STREQ(error_of(peer.claim(relay, *element)).what, kBudgetSpent);
  EXPECT_TRUE(relay.buffers().remote().empty());
  EXPECT_EQ(relay.buffers().peer_ring(), std::nullopt);
}

TEST_F(PeerMemoryTest, AConnectionWithASendRingPaysNothing) {
  SmcRelay& relay = add_connection(0);
  relay.buffers().take_send_ring({}, own_element);
  ASSERT_TRUE(peer.claim(relay, *peer.find(relay.buffers(), 0)));
  EXPECT_EQ(paid_bytes(), 0U);
}

TEST_F(PeerMemoryTest, AConnectionThatNeverKnewItsElementGivesItsReservationBack) {
  SmcRelay& relay = add_connection(0);
  reserve(relay, kElementBytes);
  peer.release(relay);
  EXPECT_EQ(paid_bytes(), 0U);
}

TEST_F(PeerMemoryTest, ADeletedKeyIsUnmappedWhenNoConnectionUsesIt) {
  SmcRelay& one_writer = add_writer(0);
  SmcRelay& other = add_writer(1);
  peer.forget(kRkey);
  EXPECT_TRUE(released().empty());
  peer.release(one_writer);
  EXPECT_TRUE(released().empty());
  EXPECT_EQ(paid_bytes(), kElementBytes);
  peer.release(other);
  ASSERT_FALSE(released().empty());
  EXPECT_EQ(released().front(), kRkey);
  EXPECT_EQ(paid_bytes(), 0U);
}

TEST_F(PeerMemoryTest, AnUnusedKeyIsUnmappedOnAllLinksAtOnce) {
  add_second_link();
  peer.release(add_writer(0));
  EXPECT_TRUE(released().empty());
  peer.forget(kRkey);
  EXPECT_EQ(released(), std::vector{kRkey});
  EXPECT_EQ(queue_pair(1).released, std::vector{kRkey});
}

TEST_F(PeerMemoryTest, AGroupWithTooManyIdleElementsIsCrowded) {
  for (std::size_t i = 0; i <= kIdlePeerRingsMax; ++i) {
    EXPECT_FALSE(peer.crowded()) << i;
    SmcRelay relay(AlertToken{1}, smc::ElementId{}, own_element, SmcRelay::Place{});
    reserve(relay, 16);
    ASSERT_TRUE(peer.claim(relay, {kRkey, RemoteAddress{i * 16}, 16}));
    peer.release(relay);
  }
  EXPECT_TRUE(peer.crowded());
  peer.forget(kRkey);
  EXPECT_FALSE(peer.crowded());
}

TEST_F(PeerMemoryTest, AnAnnouncedKeyIsTriedAndForgotten) {
  EXPECT_TRUE(check(announcement(kRkey)));
  EXPECT_EQ(released(), std::vector{kRkey});
  EXPECT_EQ(check(announcement(RemoteKey{8})).error().code, Errc::kNotFound);
}

TEST_F(PeerMemoryTest, AViewThatAConnectionUsesOutlivesACheck) {
  add_writer(0);
  EXPECT_TRUE(check(announcement(kRkey)));
  EXPECT_TRUE(released().empty());
}

TEST_F(PeerMemoryTest, ALinkThatLeadsNowhereIsNoReasonToRefuseAKey) {
  queue_pair(0).remote_error = Error{Errc::kWouldBlock, "the peer does not answer"};
  EXPECT_TRUE(check(announcement(kRkey)));
  queue_pair(0).remote_error = Error{Errc::kExhausted, "address space"};
  EXPECT_EQ(check(announcement(kRkey)).error().code, Errc::kExhausted);
}

TEST_F(PeerMemoryTest, OnlyMessagesThatMakeAddressableMemoryUsableAreChecked) {
  wire::ConfirmRkey message = announcement(RemoteKey{8});
  message.kind = wire::LlcKind::kResponse;
  EXPECT_TRUE(check(message));
  EXPECT_TRUE(check(wire::TestLink{}));
  one.device.able.remote_memory_addressable = false;
  EXPECT_TRUE(check(announcement(RemoteKey{8})));
}

TEST_F(PeerMemoryTest, TheKeysOfOtherLinksAreCheckedThere) {
  add_second_link();
  wire::ConfirmRkey message = announcement(kRkey);
  message.others.push({protocol.links()[1]->number(), kRkeyOnSecondLink, kAddressOnSecondLink});
  EXPECT_EQ(check(message).error().code, Errc::kNotFound);
  grant(1, kRkeyOnSecondLink, kAddressOnSecondLink);
  EXPECT_TRUE(check(message));
}

TEST_F(PeerMemoryTest, ALinkIsConfirmedOnlyWithMemoryThatCanBeWritten) {
  connect_second_link({{kRkey, kRkeyOnSecondLink, kAddressOnSecondLink}});
  EXPECT_EQ(check(wire::ConfirmLink{}, 1).error().code, Errc::kNotFound);
  grant(1, kRkeyOnSecondLink, kAddressOnSecondLink);
  EXPECT_TRUE(check(wire::ConfirmLink{}, 1));
  queue_pair(0).remote.clear();
  EXPECT_TRUE(check(wire::ConfirmLink{}, 0)) << "a repetition, on an active link";
}

}  // namespace
}  // namespace fairlead::relay
