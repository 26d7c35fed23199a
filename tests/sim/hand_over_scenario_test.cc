// Proxies that are replaced while their connections go on, at any moment of these.
#include "sim/scenario.h"

namespace fairlead::sim {
namespace {

constexpr std::uint64_t kSeeds = 100;

class HandOver : public Scenario {
 protected:
  static void replace(Plan& plan, Pod pod, Duration at, Duration settle = seconds(5)) {
    plan.faults.push_back({.kind = Kind::kHandOver, .at = at, .pod = pod, .grace = settle});
  }
};

TEST_P(HandOver, OfTcpLosesNothing) {
  for (Pod pod = 1; pod <= 2; ++pod)
    for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
      Plan tcp = plan();
      for (ProxySettings& settings : tcp.proxies) settings.config.smc.enabled = false;
      for (int i = 0; i < 3; ++i) tcp.connections.push_back(talk(100000, 100000));
      tcp.connections.push_back(talk(100 * seed, 300000));
      replace(tcp, pod, microseconds(25 * seed));
      run_whole(tcp, seed);
    }
}

TEST_P(HandOver, OfFramesLosesNothing) {
  for (Pod pod = 1; pod <= 2; ++pod)
    for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
      Plan framed = deferring(64 * config::kKibibyte);
      for (ProxySettings& settings : framed.proxies) settings.config.smc.defer_time = seconds(1000);
      for (int i = 0; i < 3; ++i) framed.connections.push_back(talk(20000, 20000));
      framed.connections.push_back(talk(100 * seed, 30000));
      replace(framed, pod, microseconds(10 * seed));
      run_whole(framed, seed);
    }
}

// In frames, at the hand-over to SMC-R, over SMC-R, and at the end.
TEST_P(HandOver, OfConnectionsThatEarnSmcLosesNothing) {
  for (Pod pod = 1; pod <= 2; ++pod)
    for (std::uint64_t seed = 1; seed <= 3 * kSeeds; seed += kSweepStride) {
      Plan earning = deferring(4096);
      for (int i = 0; i < 3; ++i) earning.connections.push_back(talk(200000, 200000));
      earning.connections.push_back(talk(100 * seed, 300000));
      earning.connections.push_back(talk(300000, 100 * seed));
      replace(earning, pod, microseconds(25 * seed));
      run_whole(earning, seed);
    }
}

TEST_P(HandOver, OfBothAtOnceLosesNothing) {
  for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
    Plan both = deferring(4096);
    for (int i = 0; i < 3; ++i) both.connections.push_back(talk(200000, 200000));
    replace(both, 1, microseconds(50 * seed));
    replace(both, 2, microseconds(50 * seed + seed % 7 * 10));
    run_whole(both, seed);
  }
}

TEST_P(HandOver, AgainAndAgainLosesNothing) {
  for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
    Plan often = deferring(4096);
    for (int i = 0; i < 3; ++i) often.connections.push_back(talk(2000000, 2000000));
    for (Pod i = 0; i < 10; ++i)
      replace(often, i % 2 + 1, milliseconds(3 * i) + microseconds(37 * seed));
    run_whole(often, seed);
  }
}

// The peer does nothing while a handshake is under way, as if packets were lost. What this process
// cannot end goes on in the next one, as TCP.
TEST_P(HandOver, WithinAHandshakeLosesNothing) {
  for (Pod pod = 1; pod <= 2; ++pod)
    for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
      Plan stuck = deferring(4096);
      // Of every second one the server ends early.
      stuck.connections.push_back(talk(40000, seed % 2 == 0 ? 40000 : 1000));
      // After the first frames, and before the link is confirmed at the client.
      stuck.faults.push_back({.kind = Kind::kStall,
                              .at = microseconds(200 + seed * 4 / 5),
                              .pod = peer_of(pod),
                              .lasting = seconds(2)});
      replace(stuck, pod, milliseconds(100), milliseconds(100));
      run_whole(stuck, seed);
    }
}

// Neither a connection nor the process waits for who does not come back.
TEST_P(HandOver, EndsThoughThePeerIsKilled) {
  for (Pod pod = 1; pod <= 2; ++pod)
    for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
      Plan killed = deferring(4096);
      killed.stormy = true;
      for (int i = 0; i < 3; ++i) killed.connections.push_back(talk(200000, 200000));
      replace(killed, pod, microseconds(50 * seed));
      killed.faults.push_back({.kind = Kind::kKill,
                               .at = microseconds(50 * seed + seed % 9 * 10),
                               .pod = peer_of(pod),
                               .lasting = seconds(1)});
      run(killed, seed);
    }
}

// Its bytes wait in the ring, and then in the description.
TEST_P(HandOver, OfAnApplicationThatDoesNotReadLosesNothing) {
  for (Pod pod = 1; pod <= 2; ++pod)
    for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
      Plan stalled = deferring(4096);
      stalled.connections.push_back(talk(300000, 300000));
      stalled.connections[0].client.stall_after = 1000 * seed;
      stalled.connections[0].client.stall = seconds(20);
      replace(stalled, pod, milliseconds(500));
      run_whole(stalled, seed);
    }
}

INSTANTIATE_TEST_SUITE_P(Sim, HandOver, testing::Values(kAddressable, kStaged), name_of);

}  // namespace
}  // namespace fairlead::sim
