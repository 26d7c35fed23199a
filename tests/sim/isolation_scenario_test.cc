// A peer writes with the key of another peer's memory. The devices have receive queues that serve
// any protection domain, or one for each domain.
#include <algorithm>
#include <array>
#include <cstring>

#include "sim/scenario.h"
#include "wire/llc.h"

namespace fairlead::sim {
namespace {

constexpr Pod kServer = 1, kHostile = 2, kVictim = 3;
constexpr std::size_t kBytes = 4096;

class Isolation : public Scenario {
 protected:
  // Two pods with a connection each to the third, on which data remains to be sent.
  Plan two_peers() const {
    Plan plan = this->plan();
    plan.stormy = true;
    plan.proxies.push_back(plan.proxies.back());
    plan.proxies.back().pod = kVictim;
    for (const Pod pod : {kHostile, kVictim}) {
      ConnectionPlan connection = talk(60000, 60000);
      connection.from = pod;
      connection.to = kServer;
      connection.client.pause_max = milliseconds(50);
      plan.connections.push_back(connection);
    }
    return plan;
  }
  static void wait_until_both_talk(Simulation& cluster) {
    const auto both_talk = [&] {
      return cluster.proxy(kServer).worker()->groups().peers().count() == 2;
    };
    (void)cluster.run_until(both_talk, seconds(1));
    cluster.pass(milliseconds(2));
  }
  // The server's group with that client.
  static relay::Group& group_towards(Simulation& cluster, Pod client) {
    const QpNumber peer = cluster.only_group_of(client).transport().queue_pair(0)->number();
    relay::Group* towards = nullptr;
    cluster.proxy(kServer).worker()->groups().peers().for_each([&](relay::Group& group) {
      if (group.protocol().links()[0]->peer().queue_pair == peer) towards = &group;
    });
    return *towards;
  }
  // The hostile client sends this on its link.
  static void send(Simulation& cluster, rdma::WorkRequest request) {
    request.signaled = true;
    relay::Group& hostile = cluster.only_group_of(kHostile);
    ASSERT_TRUE(hostile.transport().queue_pair(0)->post({&request, 1}));
    cluster.proxy(kHostile).devices()[0]->ring_doorbells();
  }
  static void expect_only_the_hostile_one_ends(Simulation& cluster) {
    const Outcome outcome = cluster.finish();
    EXPECT_NE(outcome.ends[0].client.saw_error, 0);
    EXPECT_TRUE(complete(outcome.ends[1]));
  }
};

TEST_P(Isolation, AKeyOfAnotherPeersMemoryKillsOnlyWhoUsesIt) {
  Simulation cluster(two_peers());
  wait_until_both_talk(cluster);
  relay::Group& hostile = cluster.only_group_of(kHostile);
  relay::Group& target = group_towards(cluster, kVictim);
  // The end of each slab, where no element is in use yet.
  const rdma::RegisteredBuffer& own = hostile.memory().rmbs().buffer({0, RmbIndex{1}});
  const rdma::RegisteredBuffer& prey = target.memory().rmbs().buffer({0, RmbIndex{1}});
  const std::span<std::byte> written = prey.bytes().last(kBytes);
  std::memset(own.bytes().last(kBytes).data(), 0xee, kBytes);
  rdma::WorkRequest write;
  write.kind = rdma::WorkRequest::Kind::kWrite;
  write.from = {&own, own.bytes().size() - kBytes, kBytes};
  write.to = {prey.rkey(), RemoteAddress{prey.address().value + prey.bytes().size() - kBytes}};
  send(cluster, write);
  (void)cluster.run_until([&] { return cluster.conversation(0).client->report().saw_error != 0; },
                          seconds(1));
  EXPECT_TRUE(std::all_of(written.begin(), written.end(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
  expect_only_the_hostile_one_ends(cluster);
}

TEST_P(Isolation, AMalformedLinkMessageEndsTheGroupOfItsSender) {
  Simulation cluster(two_peers());
  wait_until_both_talk(cluster);
  std::vector<wire::DeleteLink> deletions;
  Fabric& fabric = cluster.proxy(kHostile).devices()[0]->fabric();
  fabric.on_message = [&, usual = fabric.on_message](const SimQueuePair& sender,
                                                     std::span<const std::byte> message) {
    const Result<wire::LlcMessage> llc = wire::decode_llc(message);
    if (!llc && !wire::is_cdc(message)) return;  // the one below; nothing else may be malformed
    const auto* deletion = llc ? std::get_if<wire::DeleteLink>(&llc->body) : nullptr;
    if (deletion != nullptr) deletions.push_back(*deletion);
    usual(sender, message);
  };
  // CONFIRM_RKEY of version 2 with 200 other links.
  std::array<std::byte, wire::kLlcBytes> message{std::byte{0x26}, std::byte{wire::kLlcBytes}};
  message[4] = std::byte{200};
  rdma::WorkRequest malformed;
  malformed.kind = rdma::WorkRequest::Kind::kSend;
  malformed.message = message;
  send(cluster, malformed);
  expect_only_the_hostile_one_ends(cluster);
  ASSERT_FALSE(deletions.empty());
  EXPECT_TRUE(deletions[0].all);
  EXPECT_EQ(deletions[0].reason, wire::DeleteLinkReason::kProtocolViolation);
}

INSTANTIATE_TEST_SUITE_P(Devices, Isolation,
                         testing::Values(kAddressable, kStaged, kReceiveQueueADomain,
                                         kReceiveQueueALink),
                         name_of);

}  // namespace
}  // namespace fairlead::sim
