// Connections that begin in frames, as plans written by hand.
#include "sim/scenario.h"

namespace fairlead::sim {
namespace {

constexpr std::uint64_t kSeeds = 40;
constexpr std::size_t kDeferBytes = 32 * config::kKibibyte;

class Frames : public Scenario {
 protected:
  static std::uint64_t shorts(Cluster& cluster) {
    std::uint64_t count = 0;
    for (Pod pod = 1; pod <= 2; ++pod)
      for (const auto& direction : cluster.proxy(pod).stats().traffic)
        count += direction[Transport::kShort].connections_total.get();
    return count;
  }
};

TEST_P(Frames, ShortConnectionsMakeNoHandshake) {
  Plan few = deferring(kDeferBytes);
  for (int i = 0; i < 20; ++i) few.connections.push_back(talk(300, 3000, microseconds(50) * i));
  Simulation cluster(few);
  cluster.pass(milliseconds(500));
  const std::uint64_t seen = shorts(cluster);
  cluster.finish_whole(0U);
  EXPECT_EQ(seen, 40U);
}

TEST_P(Frames, ConnectionsThatLastBecomeSmc) {
  for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
    Plan lasting = deferring(kDeferBytes);
    for (int i = 0; i < 4; ++i) lasting.connections.push_back(talk(400000, 400000));
    run_whole(lasting, seed, 8U);
  }
}

// An application that writes all before it reads must not keep the other one from writing.
TEST_P(Frames, NobodyWaitsForAnApplicationThatDoesNotRead) {
  for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
    Plan stalled = deferring(std::size_t{1024} << seed % 7);
    stalled.tcp.buffer_bytes_max = 4096;
    stalled.connections.push_back(talk(60000, 300000));
    stalled.connections[0].client.stall_after = 100 * seed;
    stalled.connections[0].client.stall = seconds(20);
    run_whole(stalled, seed);
  }
}

TEST_P(Frames, OneEndThatDoesNotDeferMeansAHandshakeAtOnce) {
  for (Pod pod = 1; pod <= 2; ++pod) {
    Plan mixed = deferring(kDeferBytes);
    mixed.proxies[pod - 1U].config.smc.defer_bytes = 0;
    for (int i = 0; i < 5; ++i) mixed.connections.push_back(talk(10, 10));
    run_whole(mixed, 1, 10U);
  }
}

// It is a fallback from the first byte, not a deferred connection.
TEST_P(Frames, AnEncryptedPathAtTheClientIsAFallbackAtOnce) {
  Plan encrypted = deferring(kDeferBytes);
  encrypted.proxies[0].withheld = true;
  for (int i = 0; i < 5; ++i) encrypted.connections.push_back(talk(10, 10, microseconds(50) * i));
  Simulation cluster(encrypted);
  cluster.pass(milliseconds(500));
  EXPECT_EQ(cluster.fallbacks(1, Side::kLocal, FallbackReason::kIpsec), 5U);
  EXPECT_EQ(shorts(cluster), 0U);
  cluster.finish_whole();
}

TEST_P(Frames, ARefusalAtTheHandOverMeansTcpWithoutLoss) {
  for (const Kind kind : {Kind::kRefuseMemory, Kind::kRefuseQueuePairs, Kind::kRefuseConnect})
    for (Pod pod = 1; pod <= 2; ++pod)
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        Plan refused = deferring(4096);
        refused.faults.push_back({.kind = kind, .pod = pod, .lasting = seconds(100)});
        for (int i = 0; i < 3; ++i) refused.connections.push_back(talk(100000, 100000));
        run_whole(refused, seed, 0U);
      }
}

// At each moment of the hand-over.
TEST_P(Frames, ADrainOfEitherEndLosesNothing) {
  for (Pod pod = 1; pod <= 2; ++pod)
    for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
      Plan drained = deferring(4096);
      drained.faults.push_back({.kind = Kind::kDrain, .at = microseconds(25 * seed), .pod = pod});
      for (int i = 0; i < 3; ++i) drained.connections.push_back(talk(100000, 100000));
      run_whole(drained, seed);
    }
}

TEST_P(Frames, HalfClosedConnectionsEndInOrder) {
  for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
    Plan closing = deferring(2048);
    closing.connections.push_back(talk(100 * seed, 300000));  // the client ends early
    closing.connections.push_back(talk(300000, 100 * seed));  // the server does
    closing.connections.push_back(talk(0, 200000));
    closing.connections.push_back(talk(200000, 0));
    run_whole(closing, seed);
  }
}

// An application that closes with unread input resets its connection after its last bytes. These
// arrive, at any position of the hand-over.
TEST_P(Frames, LastWordsAtTheHandOverArrive) {
  constexpr std::uint64_t kHeard = 20000, kUnread = 20000;
  for (const bool client_leaves : {false, true})
    for (std::uint64_t seed = 1; seed <= 5 * kSeeds; seed += kSweepStride) {
      // The hand-over is between the first and the last byte of the application that closes.
      Plan resets = deferring(kHeard + kUnread + seed * 97 % kHeard);
      resets.stormy = true;
      resets.tcp.resets_overtake = false;
      resets.tcp.buffer_bytes_min = resets.tcp.buffer_bytes_max = 65536;
      resets.connections.push_back(client_leaves ? talk(kHeard, kHeard + kUnread)
                                                 : talk(kHeard + kUnread, kHeard));
      ConnectionPlan& made = resets.connections[0];
      Script& leaves = client_leaves ? made.client : made.server;
      Script& stays = client_leaves ? made.server : made.client;
      leaves.ending = Script::Ending::kClose;
      leaves.lead = 1000;
      leaves.chunk_max = 4000;
      leaves.stall_after = kHeard;
      leaves.stall = seconds(20);
      // The other one has already sent everything, so none of its writes fails by the reset.
      leaves.start_delay = milliseconds(3);
      stays.ending = Script::Ending::kAnswer;
      const Outcome outcome = run(resets, seed);
      const Ends& ends = outcome.ends[0];
      const EndReport& left = client_leaves ? ends.client : ends.server;
      const EndReport& stayed = client_leaves ? ends.server : ends.client;
      EXPECT_EQ(left.sent, kHeard);
      EXPECT_EQ(stayed.received, kHeard) << "seed " << seed << (client_leaves ? ", client" : "");
      EXPECT_NE(stayed.saw_error, 0) << "seed " << seed;
    }
}

TEST_P(Frames, ACutIsAResetAndNoEnd) {
  for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
    Plan cut = deferring(4096);
    cut.stormy = true;
    cut.faults.push_back({.kind = Kind::kCut, .at = microseconds(25 * seed)});
    for (int i = 0; i < 3; ++i) cut.connections.push_back(talk(100000, 100000));
    run(cut, seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Device, Frames,
                         testing::Values(DeviceKind{"Shared", true}, DeviceKind{"Rnic", false}),
                         name_of);

}  // namespace
}  // namespace fairlead::sim
