// Scenarios as plans written by hand, some of them found by a seed. Each runs with many seeds, or
// with its event at many times; the assertions hold for all.
#include "sim/scenario.h"
#include "relay/connection/idle_pages.h"

namespace fairlead::sim {
namespace {

constexpr std::uint64_t kSeeds = 40;
// Registered for messages at the start: by the worker for all links, or for its one link group.
std::size_t receive_bytes(const DeviceKind& kind) {
  const relay::PoolSize pool = kind.crosses ? relay::kPoolOfWorker : relay::kPoolOfGroup;
  return pool.first * rdma::kMessageBytesMax;
}

TEST_P(Scenario, QuietConnectionsAreSmcAndComplete) {
  Plan quiet = plan();
  for (int i = 0; i < 20; ++i) quiet.connections.push_back(talk(60000, 50000));
  run_whole(quiet, 1, 40u);
}

// Values that a polling worker uses: the streams that it reads itself, and the size of a portion.
TEST_P(Scenario, AWorkerKnowsWhetherOneOrManyAreActive) {
  struct Case {
    int connections;
    bool smc, single, many;
  };
  for (const Case& expected : {Case{1, true, true, false}, Case{2, true, false, false},
                               Case{3, true, false, true}, Case{1, false, false, false}}) {
    Plan active = plan();
    active.proxies[0].option_available = expected.smc;
    for (int i = 0; i < expected.connections; ++i) {
      active.connections.push_back(pausing(talk(200000, 200000), milliseconds(5)));
    }
    Simulation cluster(active);
    cluster.pass(milliseconds(20));
    relay::Worker& worker = *cluster.proxy(1).worker();
    EXPECT_EQ(worker.session_count(), static_cast<std::size_t>(expected.connections));
    EXPECT_EQ(worker.single_active(), expected.single) << expected.connections;
    EXPECT_EQ(worker.many_active(), expected.many) << expected.connections;
    cluster.finish();
  }
}

// Connections that pause give back pages of each other's memory, and go on at any moment of that.
TEST_P(Scenario, NothingIsLostWithThePagesOfIdleConnections) {
  for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
    Plan idle = plan();
    for (int i = 0; i < 4; ++i) {
      idle.connections.push_back(talk(60000, 60000));
      for (Script* script : {&idle.connections.back().client, &idle.connections.back().server})
        script->pause_max = 3 * relay::kIdlePagesAfter;
    }
    const Outcome outcome = run_whole(idle, seed, 8u);
    if (!GetParam().addressable) continue;
    EXPECT_GT(outcome.pages_returned, 0u) << seed;
  }
}

// The reset of an application must not end the link group that its connection creates, because
// others wait for it.
TEST_P(Scenario, ResetDuringTheFirstContactDisturbsNobodyElse) {
  for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
    Plan crowd = plan();
    // LLC takes longer than TCP, so that the RST comes while the link is being confirmed.
    crowd.fabric.delay_max = milliseconds(2);
    crowd.connections.push_back(talk(100, 100));
    crowd.connections[0].client.reset_after = 0;
    crowd.connections[0].client.start_delay = microseconds(30 * seed);
    for (int i = 0; i < 5; ++i) crowd.connections.push_back(talk(3000, 3000, microseconds(50)));
    const Outcome outcome = run(crowd, seed);
    for (std::size_t i = 1; i < outcome.ends.size(); ++i)
      EXPECT_TRUE(complete(outcome.ends[i])) << i << ", seed " << seed;
    EXPECT_GE(outcome.over_smc, 10u) << "seed " << seed;
  }
}

TEST_P(Scenario, ResetThatArrivesWithDataIsNoEnd) {
  for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
    Plan together = plan();
    together.tcp.coalesced_per_mille = 1000;
    together.connections.push_back(talk(20000, 0));
    together.connections[0].client.reset_after = 500 * seed;
    together.connections[0].client.start_delay = milliseconds(2);  // SMC-R by then
    together.connections[0].server.ending = Script::Ending::kAnswer;
    const Outcome outcome = run(together, seed);
    EXPECT_NE(outcome.ends[0].server.saw_error, 0) << "seed " << seed;
    EXPECT_FALSE(outcome.ends[0].server.saw_fin) << "seed " << seed;
  }
}

// Any refusal by a device of either side before the first byte leads to TCP.
TEST_P(Scenario, RefusalOfADeviceMeansTcp) {
  for (const Kind kind :
       {Kind::kRefuseMemory, Kind::kRefuseQueuePairs, Kind::kRefuseConnect, Kind::kRefuseRemote})
    for (Pod pod = 1; pod <= 2; ++pod)
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        if (kind == Kind::kRefuseRemote && !GetParam().addressable) continue;
        Plan refused = plan();
        refused.faults.push_back({.kind = kind, .pod = pod, .lasting = seconds(100)});
        for (int i = 0; i < 4; ++i)
          refused.connections.push_back(talk(20000, 20000, microseconds(10 + 20 * i)));
        SCOPED_TRACE(testing::Message() << static_cast<int>(kind) << " pod " << pod);
        run_whole(refused, seed, 0u);
      }
}

// Room for the device's own messages and a few connections. Later ones are TCP, each side reports
// the limit, and connections that end leave their room to others.
TEST_P(Scenario, LockedMemoryThatIsSpentMeansTcpAndSaysSo) {
  // A device must have room for a pool that has grown; until then, connections may use that room.
  const std::size_t pool = GetParam().crosses ? receive_bytes(GetParam())
                                              : relay::kPoolOnTrial.first * rdma::kMessageBytesMax;
  const unsigned connections = GetParam().crosses ? 12 : 60;
  for (Pod pod = 1; pod <= 2; ++pod) {
    Plan tight = plan();
    for (ProxySettings& settings : tight.proxies) settings.memory_bytes = 64 * config::kMebibyte;
    tight.proxies[pod - 1U].lock_limit_bytes = pool + (128 << 10);
    for (unsigned i = 0; i < connections; ++i) {
      // The number of concurrent handshakes of one client is limited.
      tight.connections.push_back(
          pausing(talk(20000, 20000, microseconds(100) * i), milliseconds(30)));
    }
    tight.connections.push_back(talk(20000, 20000, seconds(5)));
    Simulation cluster(tight);
    const Outcome outcome = cluster.finish_whole();
    const std::uint64_t spent = cluster.fallbacks(pod, Side::kLocal, FallbackReason::kMemlockLimit);
    EXPECT_GE(spent, 4u) << "pod " << pod;
    EXPECT_EQ(outcome.over_smc, 2 * (connections + 1 - spent)) << "pod " << pod;
    EXPECT_GE(outcome.over_smc, 4u) << "pod " << pod;
  }
}

// A link group with one connection has few buffers for messages, a busy one gets more.
TEST_P(Scenario, BuffersForMessagesGrowWithUse) {
  Plan busy = plan();
  busy.connections.push_back(talk(1000, 1000));
  busy.connections.back().client.stall_after = busy.connections.back().server.stall_after = 100;
  busy.connections.back().client.stall = busy.connections.back().server.stall = milliseconds(50);
  for (int i = 0; i < 120; ++i)
    busy.connections.push_back(talk(300000, 300000, milliseconds(20) + microseconds(i)));
  Simulation cluster(busy);
  const auto messages = [&](Pod pod) {
    return cluster.proxy(pod).stats().memory_used[MemoryUse::kMessages].get();
  };
  cluster.pass(milliseconds(15));
  const std::uint64_t one = std::max(messages(1), messages(2));
  EXPECT_LT(one, receive_bytes(GetParam()) + (128 << 10));
  std::uint64_t most = 0;
  (void)cluster.run_until(
      [&] {
        most = std::max({most, messages(1), messages(2)});
        return false;
      },
      milliseconds(100));
  EXPECT_EQ(most > one, !GetParam().crosses) << one << " " << most;
  cluster.finish_whole();
}

TEST_P(Scenario, APortOfAnotherNetworkIsTheReasonForTcp) {
  for (Pod pod = 1; pod <= 2; ++pod) {
    Plan apart = plan();
    apart.proxies[pod - 1U].in_network = false;
    apart.connections.push_back(talk(20000, 20000));
    Simulation cluster(apart);
    SCOPED_TRACE(testing::Message() << "pod " << pod);
    cluster.finish_whole(0u);
    EXPECT_EQ(cluster.fallbacks(pod, Side::kLocal, FallbackReason::kNoPnet), 1u);
  }
}

TEST_P(Scenario, AnEncryptedPathIsDeclinedByEitherRole) {
  for (Pod pod = 1; pod <= 2; ++pod) {
    Plan encrypted = plan();
    encrypted.proxies[pod - 1U].withheld = true;
    encrypted.connections.push_back(talk(20000, 20000));
    Simulation cluster(encrypted);
    SCOPED_TRACE(testing::Message() << "pod " << pod);
    cluster.finish_whole(0u);
    EXPECT_EQ(cluster.fallbacks(pod, Side::kLocal, FallbackReason::kIpsec), 1u);
    EXPECT_EQ(cluster.fallbacks(peer_of(pod), Side::kPeer, FallbackReason::kIpsec), 1u);
  }
}

// At one of these times the client has confirmed and then sends nothing. The server waits for its
// link, then for its Decline, and then stops waiting.
TEST_P(Scenario, AClientThatFallsSilentHoldsTheServerForAWhileOnly) {
  for (unsigned moment = 0; moment < 80; moment += kSweepStride) {
    Plan silent = plan();
    silent.stormy = true;
    silent.connections.push_back(talk(1000, 1000));
    silent.faults.push_back(
        {.kind = Kind::kStall, .at = microseconds(15 * moment), .pod = 1, .lasting = seconds(10)});
    silent.faults.push_back(
        {.kind = Kind::kCut, .at = microseconds(15 * moment) + milliseconds(1)});
    run(silent, 1);
  }
}

// The queue pair fails at any time between the first SYN and the last byte.
TEST_P(Scenario, GroupLostInAnyPhaseEndsConnectionsCleanly) {
  for (const unsigned announced : {0U, 1000U})
    for (Pod pod = 1; pod <= 2; ++pod)
      for (unsigned moment = 0; moment < 60; moment += kSweepStride) {
        Plan lost = plan();
        lost.stormy = true;
        lost.fabric.announced_per_mille = announced;
        lost.faults.push_back(
            {.kind = Kind::kQueuePairDies, .at = microseconds(200 + 25 * moment), .pod = pod});
        for (int i = 0; i < 3; ++i)
          lost.connections.push_back(talk(30000, 30000, microseconds(100 * i)));
        run(lost, 1000U + moment);
      }
}

TEST_P(Scenario, DrainLetsConnectionsEndAndMakesNewOnesTcp) {
  for (Pod pod = 1; pod <= 2; ++pod) {
    Plan drained = plan();
    drained.faults.push_back({.kind = Kind::kDrain, .at = milliseconds(2), .pod = pod});
    drained.connections.push_back(pausing(talk(100000, 100000), milliseconds(2)));
    drained.connections.push_back(talk(1000, 1000, milliseconds(10)));
    run_whole(drained, pod, 2u);
  }
}

TEST_P(Scenario, EndOfADrainIsAResetAndNoEnd) {
  for (Pod pod = 1; pod <= 2; ++pod)
    for (std::uint64_t seed = 1; seed <= 20; seed += kSweepStride) {
      Plan ended = plan();
      ended.stormy = true;
      ended.faults.push_back({.kind = Kind::kTerminate,
                              .at = microseconds(300 * seed),
                              .pod = pod,
                              .grace = milliseconds(1)});
      ended.connections.push_back(pausing(talk(200000, 200000), milliseconds(5)));
      const Ends ends = run(ended, seed).ends[0];
      EXPECT_NE(ends.client.saw_error, 0) << "seed " << seed;
      EXPECT_FALSE(ends.client.saw_fin) << "seed " << seed;
    }
}

// The kernel sends FIN for a killed process. With SMC-R that must not look like the end of the
// application's data.
TEST_P(Scenario, KilledProxyIsAResetForItsPeer) {
  for (std::uint64_t seed = 1; seed <= 20; seed += kSweepStride) {
    Plan killed = plan();
    killed.stormy = true;
    killed.faults.push_back({.kind = Kind::kKill,
                             .at = milliseconds(3) + microseconds(100 * seed),
                             .pod = 2,
                             .lasting = seconds(1)});
    killed.connections.push_back(talk(200000, 200000));
    killed.connections[0].client.pause_max = killed.connections[0].server.pause_max =
        milliseconds(5);
    const Outcome outcome = run(killed, seed);
    EXPECT_NE(outcome.ends[0].client.saw_error, 0) << "seed " << seed;
    EXPECT_FALSE(outcome.ends[0].client.saw_fin) << "seed " << seed;
  }
}

// The option was lost on the way back, and the client sends only its end.
TEST_P(Scenario, StrangerThatOnlyEndsReachesTheApplication) {
  Plan silent = plan();
  silent.net.strip_answer_per_mille = 1000;
  silent.connections.push_back(talk(0, 5000));
  run_whole(silent, 1);
}

// Only a device with addressable memory checks it this late.
class AddressableScenario : public Scenario {};
INSTANTIATE_TEST_SUITE_P(Devices, AddressableScenario, testing::Values(kAddressable), name_of);

// The client's memory turns out unusable only when the client has begun to use the connection.
TEST_P(AddressableScenario, LateRefusalOnALinkInUseHangsNobody) {
  Plan late = plan();
  late.stormy = true;
  late.faults.push_back(
      {.kind = Kind::kRefuseRemote, .at = milliseconds(5), .pod = 2, .lasting = seconds(100)});
  late.connections.push_back(pausing(talk(100000, 100000), milliseconds(5)));
  late.connections.push_back(talk(1000, 1000, milliseconds(10)));
  const Outcome outcome = run(late, 1);
  EXPECT_TRUE(complete(outcome.ends[0]));
  EXPECT_NE(outcome.ends[1].client.saw_error, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, Scenario,
                         testing::Values(kAddressable, DeviceKind{"Staged", false, false, false},
                                         kReceiveQueueALink),
                         name_of);

}  // namespace
}  // namespace fairlead::sim
