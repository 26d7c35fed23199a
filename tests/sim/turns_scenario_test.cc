// Many concurrent connections: the order of sessions in a worker's turn, and of handshakes with a
// peer.
#include "sim/scenario.h"

namespace fairlead::sim {
namespace {

constexpr std::uint64_t kSeeds = 40;

TEST_P(Scenario, ManyAtOnceStandInLineForTheirHandshakes) {
  Plan crowd = plan();
  crowd.proxies[0].handshakes_per_peer_max = 1;
  for (int i = 0; i < 20; ++i) crowd.connections.push_back(talk(5000, 5000));
  run_whole(crowd, 1, 40u);
}

// With this little time, a handshake fails if each of its steps waits until all streams have had
// their turn.
TEST_P(Scenario, NewcomersDoNotWaitForStreams) {
  Plan busy = plan();
  for (ProxySettings& settings : busy.proxies) {
    settings.turn_max = Duration{};
    settings.memory_bytes = 1 << 24;
    settings.config.smc.handshake_timeout = microseconds(1500);
  }
  constexpr int kStreams = 100;
  for (int i = 0; i < kStreams; ++i) {
    busy.connections.push_back(talk(100000, 0, milliseconds(2 * i)));
    busy.connections.back().client.start_delay = milliseconds(2 * kStreams + 1 - 2 * i);
  }
  for (int i = 0; i < 5; ++i)
    busy.connections.push_back(talk(100, 100, milliseconds(2 * kStreams + 2 + i)));
  run_whole(busy, 1, 2u * (kStreams + 5));
}

// The first one keeps its place while the peer is silent. Others wait for it no longer than for a
// handshake.
TEST_P(Scenario, WhoStandsInLineForTooLongIsTcp) {
  Plan stuck = plan();
  stuck.proxies[0].handshakes_per_peer_max = 1;
  stuck.proxies[0].config.smc.handshake_timeout = seconds(1);
  stuck.faults.push_back({.kind = Kind::kStall, .pod = 2, .lasting = seconds(3)});
  for (int i = 0; i < 5; ++i) stuck.connections.push_back(talk(5000, 5000, milliseconds(1)));
  run_whole(stuck, 1, 0u);
}

// An application that closes while its session waits does not delay others.
TEST_P(Scenario, WhoLeavesTheLineHoldsNobodyUp) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Plan crowd = plan();
    crowd.proxies[0].handshakes_per_peer_max = 1;
    for (int i = 0; i < 6; ++i) crowd.connections.push_back(talk(1000, 1000));
    for (int i = 1; i < 6; i += 2) {
      crowd.connections[static_cast<std::size_t>(i)].client.reset_after = 0;
      crowd.connections[static_cast<std::size_t>(i)].client.start_delay = microseconds(20 * seed);
    }
    const Outcome outcome = run(crowd, seed);
    for (std::size_t i = 0; i < 6; i += 2) EXPECT_TRUE(complete(outcome.ends[i])) << seed;
  }
}

}  // namespace
}  // namespace fairlead::sim
