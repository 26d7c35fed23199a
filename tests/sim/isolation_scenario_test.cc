// A peer writes with the key of another peer's memory. The devices have receive queues that serve
// any protection domain, or one for each domain.
#include <algorithm>
#include <array>
#include <cstring>

#include "sim/scenario.h"
#include "wire/llc.h"

namespace fairlead::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

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
  static relay::Group& only_group_of(SimProxy& proxy) {
    EXPECT_EQ(proxy.worker()->groups().peers().count(), 1u);
    relay::Group* only = nullptr;
    proxy.worker()->groups().peers().for_each([&](relay::Group& group) { only = &group; });
    return *only;
  }
  // The server's group with that client.
  static relay::Group& group_towards(SimProxy& server, SimProxy& client) {
    const QpNumber peer = only_group_of(client).transport().queue_pair(0)->number();
    relay::Group* towards = nullptr;
    server.worker()->groups().peers().for_each([&](relay::Group& group) {
      if (group.protocol().links()[0]->peer().queue_pair == peer) towards = &group;
    });
    return *towards;
  }
};

TEST_P(Isolation, AKeyOfAnotherPeersMemoryKillsOnlyWhoUsesIt) {
  World world(1);
  Cluster cluster(world, two_peers());
  const auto both_talk = [&] {
    return cluster.proxy(kServer).worker()->groups().peers().count() == 2;
  };
  (void)cluster.run_until(both_talk, seconds(1));
  (void)cluster.run_until([] { return false; }, milliseconds(2));
  relay::Group& hostile = only_group_of(cluster.proxy(kHostile));
  relay::Group& target = group_towards(cluster.proxy(kServer), cluster.proxy(kVictim));
  // The end of each slab, where no element is in use yet.
  const rdma::RegisteredBuffer& own = hostile.memory().rmbs().buffer({0, RmbIndex{1}});
  const rdma::RegisteredBuffer& prey = target.memory().rmbs().buffer({0, RmbIndex{1}});
  const std::span<std::byte> written = prey.bytes().last(kBytes);
  std::memset(own.bytes().last(kBytes).data(), 0xee, kBytes);
  rdma::WorkRequest write;
  write.kind = rdma::WorkRequest::Kind::kWrite;
  write.signaled = true;
  write.from = {&own, own.bytes().size() - kBytes, kBytes};
  write.to = {prey.rkey(), RemoteAddress{prey.address().value + prey.bytes().size() - kBytes}};
  ASSERT_TRUE(hostile.transport().queue_pair(0)->post({&write, 1}));
  cluster.proxy(kHostile).devices()[0]->ring_doorbells();
  (void)cluster.run_until([&] { return cluster.conversation(0).client->report().saw_error != 0; },
                          seconds(1));
  EXPECT_TRUE(std::all_of(written.begin(), written.end(),
                          [](std::byte byte) { return byte == std::byte{0}; }));

  const Outcome outcome = cluster.run();
  EXPECT_FALSE(outcome.failure) << *outcome.failure;
  EXPECT_NE(outcome.ends[0].client.saw_error, 0);
  EXPECT_TRUE(complete(outcome.ends[1]));
}

TEST_P(Isolation, AMalformedLinkMessageEndsTheGroupOfItsSender) {
  World world(1);
  Cluster cluster(world, two_peers());
  const auto both_talk = [&] {
    return cluster.proxy(kServer).worker()->groups().peers().count() == 2;
  };
  (void)cluster.run_until(both_talk, seconds(1));
  (void)cluster.run_until([] { return false; }, milliseconds(2));
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
  rdma::WorkRequest send;
  send.kind = rdma::WorkRequest::Kind::kSend;
  send.signaled = true;
  send.message = message;
  ASSERT_TRUE(only_group_of(cluster.proxy(kHostile)).transport().queue_pair(0)->post({&send, 1}));
  cluster.proxy(kHostile).devices()[0]->ring_doorbells();

  const Outcome outcome = cluster.run();
  EXPECT_FALSE(outcome.failure) << *outcome.failure;
  ASSERT_FALSE(deletions.empty());
  EXPECT_TRUE(deletions[0].all);
  EXPECT_EQ(deletions[0].reason, wire::DeleteLinkReason::kProtocolViolation);
  EXPECT_NE(outcome.ends[0].client.saw_error, 0);
  EXPECT_TRUE(complete(outcome.ends[1]));
}

INSTANTIATE_TEST_SUITE_P(Devices, Isolation,
                         testing::Values(kAddressable, kStaged, kReceiveQueueADomain,
                                         kReceiveQueueALink),
                         name_of);

}  // namespace
}  // namespace fairlead::sim
