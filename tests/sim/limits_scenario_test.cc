// Connections that reach memory.limit in each of their steps, as plans written by hand. New ones
// may be refused; none that stands is.
#include "sim/scenario.h"

namespace fairlead::sim {
namespace {

constexpr std::uint64_t kSeeds = 8;
constexpr std::size_t kMiB = 1024 * config::kKibibyte;
// More than all buffers between two applications hold, but less than frames may carry.
constexpr std::uint64_t kManyBytes = 120'000;

class Limits : public Scenario {
 protected:
  enum class Begin : std::uint8_t { kInFrames, kInSmc, kInTcp };

  static const char* name_of(Begin begin) {
    return begin == Begin::kInFrames ? "in frames" : begin == Begin::kInSmc ? "in SMC" : "in TCP";
  }
  // The server's proxy has this limit. Frames are left at the latest with their last byte.
  Plan limited(Begin begin, std::size_t limit) const {
    Plan made = plan();
    made.tcp.buffer_bytes_max = 16384;
    made.proxies[1].memory_limit_bytes = limit;
    if (begin == Begin::kInTcp) made.proxies[1].devices = 0;
    for (ProxySettings& settings : made.proxies) {
      if (begin != Begin::kInFrames) continue;
      settings.config.smc.defer_bytes = 64 * config::kKibibyte;
      settings.config.smc.defer_turns = 1000;
      settings.config.smc.defer_time = seconds(3600);
    }
    return made;
  }
  // Begins before others use up the memory. Its bytes come afterwards, and the server reads late.
  static ConnectionPlan standing() {
    ConnectionPlan made = talk(kManyBytes, 1000);
    made.client.start_delay = milliseconds(50);
    made.server.stall_after = 0;
    made.server.stall = milliseconds(300);
    return made;
  }
  // The server reads nothing for a long time.
  static ConnectionPlan crowding(Duration at) {
    ConnectionPlan made = talk(kManyBytes, 100, at);
    made.server.stall_after = 0;
    made.server.stall = seconds(2);
    return made;
  }
  static void add_crowd(Plan& plan, unsigned count) {
    for (unsigned i = 0; i < count; ++i)
      plan.connections.push_back(crowding(milliseconds(5) + microseconds(100) * i));
  }
  // A connection that its server has heard of ends well, and the first ones are never refused.
  static void expect_whole(const Outcome& outcome, std::size_t certain, std::uint64_t seed) {
    for (std::size_t i = 0; i < outcome.ends.size(); ++i) {
      const Ends& ends = outcome.ends[i];
      EXPECT_TRUE(i >= certain || ends.servers == 1) << "connection " << i << ", seed " << seed;
      EXPECT_TRUE(ends.servers == 0 || complete(ends)) << "connection " << i << ", seed " << seed;
    }
  }
  static constexpr Begin kBegins[] = {Begin::kInFrames, Begin::kInSmc, Begin::kInTcp};
};

TEST_P(Limits, ConnectionsAreRefusedOnlyAtTheirBegin) {
  for (const Begin begin : kBegins)
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Plan crowd = limited(begin, 2 * kMiB);
      for (int i = 0; i < 80; ++i) crowd.connections.push_back(crowding({}));
      const Outcome outcome = run(crowd, seed);
      expect_whole(outcome, 0, seed);
      EXPECT_GT(outcome.refused, 0U) << name_of(begin) << ", seed " << seed;
    }
}

TEST_P(Limits, StandingConnectionsOutlastACrowd) {
  for (const Begin begin : kBegins)
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Plan crowd = limited(begin, 2 * kMiB);
      for (int i = 0; i < 4; ++i) crowd.connections.push_back(standing());
      add_crowd(crowd, 80);
      const Outcome outcome = run(crowd, seed);
      expect_whole(outcome, 4, seed);
      EXPECT_GT(outcome.refused, 0U) << name_of(begin) << ", seed " << seed;
    }
}

// The client's application is the one that reads late, and its proxy the one with the limit.
TEST_P(Limits, NewConnectionsOfTheApplicationAreTcpWhereFramesAreTooMuch) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Plan crowd = limited(Begin::kInFrames, 0);
    crowd.proxies[0].memory_limit_bytes = 4 * kMiB;
    for (unsigned i = 0; i < 48; ++i) {
      ConnectionPlan made = talk(100, kManyBytes, microseconds(100) * i);
      made.client.stall_after = 0;
      made.client.stall = seconds(1);
      crowd.connections.push_back(made);
    }
    const Outcome outcome = run(crowd, seed);
    expect_whole(outcome, 4, seed);
    EXPECT_GT(outcome.tcp_for_memory, 0U) << "seed " << seed;
  }
}

// There is memory for sockets, but none for rings.
TEST_P(Limits, AHandOverWithoutMemoryForRingsLeadsToTcp) {
  for (const Pod pod : {Pod{1}, Pod{2}})
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Plan handed = limited(Begin::kInFrames, 0);
      handed.proxies[pod - 1].memory_limit_bytes = 32 * kMiB;
      handed.proxies[pod - 1].memory_bytes = 64 * config::kKibibyte;
      for (int i = 0; i < 12; ++i) handed.connections.push_back(talk(kManyBytes, kManyBytes));
      const Outcome outcome = run(handed, seed);
      expect_whole(outcome, 12, seed);
      EXPECT_GT(outcome.tcp_for_memory, 0U) << "seed " << seed;
    }
}

TEST_P(Limits, ADrainEndsNoneEither) {
  for (const Begin begin : kBegins)
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Plan drained = limited(begin, 4 * kMiB);
      for (int i = 0; i < 4; ++i) drained.connections.push_back(standing());
      add_crowd(drained, 30);
      drained.faults.push_back({.kind = Kind::kDrain,
                                .at = milliseconds(4) + microseconds(200) * seed,
                                .pod = seed % 2 == 0 ? Pod{1} : Pod{2}});
      expect_whole(run(drained, seed), 4, seed);
    }
}

// TCP works and the fabric does not. Connections wait for each other's first contact; those for
// which that takes too long become TCP before the client gives up.
TEST_P(Limits, AWaitForAFirstContactEndsInTcp) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Plan dark = limited(Begin::kInFrames, 0);
    dark.fabric.straggler_per_mille = 1000;
    dark.fabric.straggle_max = seconds(10'000);
    for (int i = 0; i < 8; ++i) dark.connections.push_back(talk(kManyBytes, kManyBytes));
    expect_whole(run(dark, seed), 8, seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Device, Limits, testing::Values(kAddressable, kStaged), sim::name_of);

}  // namespace
}  // namespace fairlead::sim
