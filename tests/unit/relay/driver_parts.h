// What a part of a link group needs around it: resources of a worker, a clock that the test sets,
// a peer, devices in memory, and the protocol of the group.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fake_device.h"
#include "fake_stream.h"
#include "relay/connection/connection_owner.h"
#include "relay/group/group_memory.h"
#include "relay/group/group_resources.h"
#include "relay/group/link_transport.h"
#include "set_clock.h"

namespace fairlead::relay {

// A device as link groups use it.
struct DriverDevice {
  explicit DriverDevice(const std::string& name, std::vector<rdma::Port> ports)
      : device(name, std::move(ports)) {
    link.device = &device;
    link.reachability = &reachability;
  }
  LinkTransport::PortCandidate at(std::size_t port = 0) { return {&link, device.port_list[port]}; }

  FakeDevice device;
  FakeReachability reachability;
  LinkDevice link;
};

inline rdma::PeerEndpoint peer_endpoint(std::uint8_t host, std::uint32_t queue_pair) {
  rdma::PeerEndpoint peer;
  peer.gid = gid_of(host);
  peer.mac = mac_of(host);
  peer.queue_pair = QpNumber{queue_pair};
  return peer;
}

inline smc::LinkIdentity identity_of(const rdma::PeerEndpoint& peer) {
  return {peer.gid, peer.mac, peer.queue_pair};
}

// Counts what a group tells of a connection.
class CountingOwner final : public ConnectionOwner {
 public:
  void handle_connection_event() override { ++events; }
  void handle(const Event& event, TimePoint) override {
    if (const auto* const why = std::get_if<GroupRefused>(&event)) refused = why->reason;
    if (std::holds_alternative<GroupLost>(event)) ++lost;
    if (std::holds_alternative<RmbAnnounced>(event)) ++told;
    if (!std::holds_alternative<GroupConfirmed>(event)) return;
    ++confirmed;
    if (when_confirmed) when_confirmed();
  }

  int events = 0, confirmed = 0, lost = 0, told = 0;
  std::optional<FallbackReason> refused;
  std::function<void()> when_confirmed;
};

inline constexpr std::uint8_t kPeerHost = 100;

// What the groups of a worker share.
struct WorkerResources {
  WorkerResources() {
    shared.budget = &budget;
    shared.timers = &timers;
    shared.stats = &stats;
    shared.clock = &clock;
    shared.slab_idle = std::chrono::seconds(60);
  }

  SetClock clock;
  WorkerStats stats;
  MemoryBudget budget{std::size_t{64} << 20, 0, stats};
  event::TimerQueue timers;
  GroupResources shared;
};

inline constexpr Error kNoBudget{Errc::kMemoryLimit, kBudgetSpent};

// How a server's group begins, and the devices "one" with two ports and "two" with one; all lead to
// the same peers.
struct GroupParts : WorkerResources {
  explicit GroupParts(std::uint8_t links_max) {
    shared.devices = {&one.link, &two.link};
    one.reachability.pnets = {{PortNumber{1}, "NET"}, {PortNumber{2}, "NET"}};
    two.reachability.pnets = {{PortNumber{1}, "NET"}};
    FakeStream companion;
    start.id = "g-1";
    start.role = smc::GroupRole::kServer;
    start.peer = PeerId{{7}};
    start.terms.max_links = links_max;
    start.links_max = links_max;
    start.device = &one.link;
    start.port = one.device.port_list[0];
    start.place = Place(companion, std::nullopt).kept();
  }

  DriverDevice one{"one", {active_port(1, 1), active_port(2, 2)}};
  DriverDevice two{"two", {active_port(1, 3)}};
  GroupStart start;
};

// The peer agrees to a second link of the group, to another of its ports unless the test says so.
// Its memory has these keys there.
inline wire::AddLink add_link_answer(const smc::LinkGroup& group,
                                     const std::vector<wire::RkeyEntry>& keys,
                                     std::uint8_t host = kPeerHost + 1) {
  const rdma::PeerEndpoint peer = peer_endpoint(host, 501);
  wire::AddLink answer;
  answer.kind = wire::LlcKind::kResponse;
  answer.mac = peer.mac;
  answer.gid = peer.gid;
  answer.queue_pair = peer.queue_pair;
  answer.link = group.links()[1]->number();
  answer.mtu_code = static_cast<std::uint8_t>(Mtu::k1024);
  for (const wire::RkeyEntry& key : keys) answer.rkeys.push(key);
  return answer;
}

class DriverTest : public testing::Test, protected GroupParts {
 protected:
  explicit DriverTest(std::uint8_t links_max = 1)
      : GroupParts(links_max), protocol(start.role, start.terms, {}, clock.at, links_max) {}

  Result<void> create(smc::LinkIndex link, const LinkTransport::PortCandidate& at) {
    return transport.create(link, at, memory);
  }
  FakeQueuePair& queue_pair(smc::LinkIndex link) {
    return dynamic_cast<FakeQueuePair&>(*transport.queue_pair(link));
  }
  // The peer sends a message over the link.
  void receive(const wire::LlcBody& body, smc::LinkIndex link = 0) {
    protocol.handle_llc(link, {wire::LlcVersion::k2, body}, clock.at);
  }
  // The first link is made, connected, and confirmed by the peer: the group can be used.
  void confirm_first_link() {
    const rdma::PeerEndpoint peer = peer_endpoint(kPeerHost, 500);
    ASSERT_TRUE(create(0, one.at()));
    ASSERT_TRUE(transport.connect(0, peer));
    protocol.start_first_contact(transport.identity(0), identity_of(peer), clock.at);
    confirm(0);
    ASSERT_TRUE(protocol.usable());
  }
  void confirm(smc::LinkIndex link) {
    wire::ConfirmLink answer;
    answer.kind = wire::LlcKind::kResponse;
    answer.link = protocol.links()[link]->number();
    receive(answer, link);
  }
  // A second link is connected, at the other port of "one" unless the test says so.
  void connect_second_link(const std::vector<wire::RkeyEntry>& keys = {}, std::size_t port = 1,
                           std::uint8_t host = kPeerHost + 1) {
    std::optional<smc::LinkTask> task = protocol.poll_task(clock.at);
    ASSERT_TRUE(task && task->link == 1);
    ASSERT_TRUE(create(1, one.at(port)));
    memory.set_keys(1);
    protocol.task_done(*task, clock.at,
                       smc::LinkOffer{transport.identity(1), PacketSeq{1}, Mtu::k1024});
    receive(add_link_answer(protocol, keys, host));
    task = protocol.poll_task(clock.at);
    ASSERT_TRUE(task && transport.connect(1, task->peer));
    protocol.task_done(*task, clock.at);
  }
  void add_second_link(const std::vector<wire::RkeyEntry>& keys = {}) {
    connect_second_link(keys);
    confirm(1);
    ASSERT_TRUE(protocol.links().active(1));
  }

  smc::LinkGroup protocol;
  LinkTransport transport{shared, start, nullptr};
  GroupMemory memory{shared, start, protocol, transport};
};

}  // namespace fairlead::relay
