// A whole link group on devices in memory, and the peer that a test plays.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "driver_parts.h"
#include "relay/group/group.h"
#include "smc/connection/cursor.h"
#include "wire/llc.h"

namespace fairlead::relay {

// The one that the peer names first.
inline constexpr smc::RmbKey kPeerRmb{RemoteKey{9}, RemoteAddress{0x10000}};
inline constexpr RingSizes kSmallRings{{0, 0}, std::nullopt};
inline constexpr std::uint32_t kRingBytes = smc::element_bytes(0);

// Nothing is due but what a test causes. Settings are changed before the group is made.
class GroupFixture : public testing::Test, protected GroupParts {
 protected:
  explicit GroupFixture(std::uint8_t links_max = 1) : GroupParts(links_max) {
    shared.times.test_link_interval = {};
  }

  void make() {
    Result<std::unique_ptr<Group>> made = Group::create(shared, start, clock.at);
    ASSERT_TRUE(made);
    group = std::move(*made);
  }
  // … and connects its first link, which awaits the confirmation.
  void connect() {
    make();
    ASSERT_TRUE(group->connect_first_link(peer_endpoint(kPeerHost, 500)));
    group->protocol().peer_rmb_named(smc::LinkIndex{0}, kPeerRmb);
    group->start_first_contact(clock.at);
  }
  void establish() {
    connect();
    confirm(0);
    ASSERT_TRUE(group->protocol().usable());
  }
  // The peer answers to the ADD_LINK. Its memory has these keys on the second link.
  void answer_add_link(const std::vector<wire::RkeyEntry>& keys = {}) {
    ASSERT_TRUE(sent<wire::AddLink>());
    receive(add_link_answer(group->protocol(), keys));
  }
  void establish_two_links(const std::vector<wire::RkeyEntry>& keys = {}) {
    establish();
    answer_add_link(keys);
    confirm(1);
    ASSERT_EQ(group->protocol().links().active_count(), 2U);
  }

  // Messages of the peer.
  void receive(const wire::LlcBody& body, smc::LinkIndex link = 0) {
    std::array<std::byte, wire::kLlcBytesMax> bytes;
    const std::size_t count = wire::encode({wire::LlcVersion::k2, body}, bytes);
    group->handle_message(link, std::span(bytes).first(count), clock.at);
  }
  void receive(const wire::CdcMessage& message, smc::LinkIndex link = 0) {
    std::array<std::byte, wire::kCdcBytes> bytes;
    wire::encode(message, bytes);
    group->handle_message(link, bytes, clock.at);
  }
  void confirm(smc::LinkIndex link) {
    wire::ConfirmLink message;
    message.kind =
        start.role == smc::GroupRole::kServer ? wire::LlcKind::kResponse : wire::LlcKind::kRequest;
    message.link = start.role == smc::GroupRole::kServer ? group->protocol().links()[link]->number()
                                                         : LinkNumber{1};
    receive(message, link);
  }
  // It takes the keys that it was told last, or refuses them.
  void take_keys(bool takes = true) {
    const std::optional<wire::ConfirmRkey> request = sent<wire::ConfirmRkey>();
    ASSERT_TRUE(request);
    wire::ConfirmRkey answer = *request;
    answer.kind = wire::LlcKind::kResponse;
    answer.refused = !takes;
    receive(answer);
  }

  struct Connection {
    CountingOwner owner;
    Group::Member member;
    std::unique_ptr<SmcRelay> relay;
  };
  // A connection on the first link, with a place, that is found by its token.
  Connection& add_connection(const RingSizes& sizes = kSmallRings) {
    Connection& added = *connections.emplace_back(std::make_unique<Connection>());
    added.member = group->join(sizes.own, 0).value();
    added.relay = std::make_unique<SmcRelay>(added.member.token, added.member.element,
                                             group->memory().rmbs().bytes(added.member.element),
                                             SmcRelay::Place{group.get(), 0, &added.owner});
    SmcRelay& relay = *added.relay;
    group->connections().set(added.member.token, &relay);
    EXPECT_TRUE(group->take_send_ring(relay, sizes));
    return added;
  }
  // … that knows the peer's element.
  Connection& add_sender() {
    Connection& added = add_connection();
    EXPECT_TRUE(prepare(added));
    return added;
  }
  Result<void> prepare(Connection& of, std::uint64_t offset = 0) {
    return group->prepare_sending(*of.relay, {kPeerRmb, offset, kRingBytes}, smc::LinkIndex{0},
                                  AlertToken{0xabc});
  }
  void remove(Connection& gone, bool quarantine = false) {
    group->release_sending(*gone.relay);
    group->leave(gone.member, gone.relay->link(), quarantine, clock.at);
  }

  const smc::LinkSet& links() { return group->protocol().links(); }
  FakeQueuePair& queue_pair(smc::LinkIndex link = 0) {
    return dynamic_cast<FakeQueuePair&>(*group->transport().queue_pair(link));
  }
  // The peer lets a link write to its memory, from the beginning of the RMB.
  std::vector<std::byte>& grant(smc::LinkIndex link, const smc::RmbKey& key = kPeerRmb) {
    FakeQueuePair::RemoteBuffer& granted = queue_pair(link).remote[key.rkey];
    granted = {key.address, std::vector<std::byte>(4 * kRingBytes)};
    return granted.bytes;
  }
  // The message of this type that was sent last over the link.
  template <class Body>
  std::optional<Body> sent(smc::LinkIndex link = 0) {
    group->sender().flush(clock.at);
    return queue_pair(link).last<Body>();
  }
  // The last event of this kind among those that nobody has taken yet.
  std::optional<smc::GroupEvent> event(smc::GroupEvent::Kind kind) {
    std::optional<smc::GroupEvent> found;
    while (const auto next = group->protocol().output().poll_event())
      if (next->kind == kind) found = next;
    return found;
  }
  // Why the group has ended; "" if it has not.
  std::string end_why() {
    const auto end = event(smc::GroupEvent::Kind::kTerminated);
    return end ? end->why : "";
  }
  std::size_t paid_for_peer() const { return budget.used_bytes(MemoryUse::kPeerRings); }
  // Bytes that were written over a link to the peer's memory.
  std::size_t written_bytes(smc::LinkIndex link = 0) {
    std::size_t bytes = 0;
    for (const FakeQueuePair::Posted& posted : queue_pair(link).posted)
      if (posted.request.kind == rdma::WorkRequest::Kind::kWrite)
        bytes += posted.request.from.length_bytes;
    return bytes;
  }
  // … where a new connection writes as much as it can.
  std::size_t written_at_most() {
    Connection& connection = add_sender();
    connection.relay->connection().produced(kRingBytes);
    group->sender().schedule(*connection.relay);
    group->sender().flush(clock.at);
    return written_bytes();
  }
  std::string line_of(const std::function<void()>& act) {
    testing::internal::CaptureStderr();
    act();
    return testing::internal::GetCapturedStderr();
  }
  void wait(Duration duration) {
    clock.at += duration;
    timers.run(clock.at);
  }
  // So much is left for rings.
  void leave_for_rings(std::size_t bytes) {
    ASSERT_TRUE(budget.take(MemoryUse::kRings, budget.rings_left_bytes() - bytes));
  }

  std::vector<std::unique_ptr<Connection>> connections;
  std::unique_ptr<Group> group;
};

// Memory of the peer that this side writes to itself.
class GroupWithAddressableMemory : public GroupFixture {
 protected:
  explicit GroupWithAddressableMemory(std::uint8_t links_max = 1) : GroupFixture(links_max) {
    one.device.able.remote_memory_addressable = true;
  }
  void establish_with_memory() {
    connect();
    grant(0);
    confirm(0);
    ASSERT_TRUE(group->protocol().usable());
  }
};

}  // namespace fairlead::relay
