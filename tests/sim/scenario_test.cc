// Scenarios as plans written by hand, some of them found by a seed. Each runs with many seeds, or
// with its event at many times; the assertions hold for all.
#include "sim/scenario.h"
#include "relay/connection/idle_pages.h"

namespace fairlead::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kSeeds = 40;
// Registered for messages at the start: by the worker for all links, or for its one link group.
std::size_t receive_bytes(const DeviceKind& kind) {
  const relay::PoolSize pool = kind.crosses ? relay::kPoolOfWorker : relay::kPoolOfGroup;
  return pool.first * rdma::kMessageBytesMax;
}

TEST_P(Scenario, QuietConnectionsAreSmcAndComplete) {
  Plan quiet = plan();
  for (int i = 0; i < 20; ++i) quiet.connections.push_back(talk(60000, 50000));
  const Outcome outcome = run(quiet, 1);
  for (const Ends& ends : outcome.ends) EXPECT_TRUE(complete(ends));
  EXPECT_EQ(outcome.over_smc, 40u);
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
      active.connections.push_back(talk(200000, 200000));
      active.connections.back().client.pause_max = milliseconds(5);
    }
    World world(1);
    Cluster cluster(world, active);
    (void)cluster.run_until([] { return false; }, milliseconds(20));
    relay::Worker& worker = *cluster.proxy(1).worker();
    EXPECT_EQ(worker.session_count(), static_cast<std::size_t>(expected.connections));
    EXPECT_EQ(worker.single_active(), expected.single) << expected.connections;
    EXPECT_EQ(worker.many_active(), expected.many) << expected.connections;
    EXPECT_FALSE(cluster.run().failure);
  }
}

// Connections that pause give back pages of each other's memory, and go on at any moment of that.
TEST_P(Scenario, NothingIsLostWithThePagesOfIdleConnections) {
  for (std::uint64_t seed = 1; seed <= kSeeds; seed += kSweepStride) {
    Plan pausing = plan();
    for (int i = 0; i < 4; ++i) {
      pausing.connections.push_back(talk(60000, 60000));
      for (Script* script :
           {&pausing.connections.back().client, &pausing.connections.back().server})
        script->pause_max = 3 * relay::kIdlePagesAfter;
    }
    const Outcome outcome = run(pausing, seed);
    EXPECT_FALSE(outcome.failure) << *outcome.failure;
    for (const Ends& ends : outcome.ends) EXPECT_TRUE(complete(ends)) << seed;
    EXPECT_EQ(outcome.over_smc, 8u);
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
  using Kind = Fault::Kind;
  for (const Kind kind :
       {Kind::kRefuseMemory, Kind::kRefuseQueuePairs, Kind::kRefuseConnect, Kind::kRefuseRemote})
    for (Pod pod = 1; pod <= 2; ++pod)
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        if (kind == Kind::kRefuseRemote && !GetParam().addressable) continue;
        Plan refused = plan();
        Fault fault;
        fault.kind = kind;
        fault.pod = pod;
        fault.lasting = seconds(100);
        refused.faults.push_back(fault);
        for (int i = 0; i < 4; ++i)
          refused.connections.push_back(talk(20000, 20000, microseconds(10 + 20 * i)));
        const Outcome outcome = run(refused, seed);
        for (const Ends& ends : outcome.ends) EXPECT_TRUE(complete(ends));
        EXPECT_EQ(outcome.over_smc, 0u) << static_cast<int>(kind) << " pod " << pod;
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
      tight.connections.push_back(talk(20000, 20000, microseconds(100) * i));
      tight.connections.back().client.pause_max = milliseconds(30);
    }
    tight.connections.push_back(talk(20000, 20000, seconds(5)));
    World world(1);
    Cluster cluster(world, tight);
    const Outcome outcome = cluster.run();
    EXPECT_FALSE(outcome.failure) << *outcome.failure;
    for (const Ends& ends : outcome.ends) EXPECT_TRUE(complete(ends));
    const Direction direction = pod == 1 ? Direction::kOutbound : Direction::kInbound;
    const std::uint64_t spent =
        cluster.proxy(pod)
            .stats()
            .fallback[direction][Side::kLocal][FallbackReason::kMemlockLimit]
            .get();
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
  World world(1);
  Cluster cluster(world, busy);
  const auto messages = [&](Pod pod) {
    return cluster.proxy(pod).stats().memory_used[MemoryUse::kMessages].get();
  };
  (void)cluster.run_until([] { return false; }, milliseconds(15));
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
  const Outcome outcome = cluster.run();
  EXPECT_FALSE(outcome.failure) << *outcome.failure;
  for (const Ends& ends : outcome.ends) EXPECT_TRUE(complete(ends));
}

TEST_P(Scenario, APortOfAnotherNetworkIsTheReasonForTcp) {
  for (Pod pod = 1; pod <= 2; ++pod) {
    Plan apart = plan();
    apart.proxies[pod - 1U].in_network = false;
    apart.connections.push_back(talk(20000, 20000));
    World world(1);
    Cluster cluster(world, apart);
    const Outcome outcome = cluster.run();
    EXPECT_FALSE(outcome.failure) << *outcome.failure;
    EXPECT_TRUE(complete(outcome.ends[0]));
    EXPECT_EQ(outcome.over_smc, 0u) << "pod " << pod;
    const Direction direction = pod == 1 ? Direction::kOutbound : Direction::kInbound;
    EXPECT_EQ(
        cluster.proxy(pod).stats().fallback[direction][Side::kLocal][FallbackReason::kNoPnet].get(),
        1u)
        << "pod " << pod;
  }
}

TEST_P(Scenario, AnEncryptedPathIsDeclinedByEitherRole) {
  for (Pod pod = 1; pod <= 2; ++pod) {
    Plan encrypted = plan();
    encrypted.proxies[pod - 1U].withheld = true;
    encrypted.connections.push_back(talk(20000, 20000));
    World world(1);
    Cluster cluster(world, encrypted);
    const Outcome outcome = cluster.run();
    EXPECT_FALSE(outcome.failure) << *outcome.failure;
    EXPECT_TRUE(complete(outcome.ends[0]));
    EXPECT_EQ(outcome.over_smc, 0u) << "pod " << pod;
    const auto fallbacks = [&](Pod of, Side side, FallbackReason reason) {
      const Direction direction = of == 1 ? Direction::kOutbound : Direction::kInbound;
      return cluster.proxy(of).stats().fallback[direction][side][reason].get();
    };
    EXPECT_EQ(fallbacks(pod, Side::kLocal, FallbackReason::kIpsec), 1u) << "pod " << pod;
    EXPECT_EQ(fallbacks(3 - pod, Side::kPeer, FallbackReason::kIpsec), 1u) << "pod " << pod;
  }
}

// At one of these times the client has confirmed and then sends nothing. The server waits for its
// link, then for its Decline, and then stops waiting.
TEST_P(Scenario, AClientThatFallsSilentHoldsTheServerForAWhileOnly) {
  for (unsigned moment = 0; moment < 80; moment += kSweepStride) {
    Plan silent = plan();
    silent.stormy = true;
    silent.connections.push_back(talk(1000, 1000));
    Fault fault;
    fault.kind = Fault::Kind::kStall;
    fault.pod = 1;
    fault.at = microseconds(15 * moment);
    fault.lasting = seconds(10);
    silent.faults.push_back(fault);
    fault.kind = Fault::Kind::kCut;
    fault.at += milliseconds(1);
    silent.faults.push_back(fault);
    (void)run(silent, 1);
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
        Fault fault;
        fault.kind = Fault::Kind::kQueuePairDies;
        fault.pod = pod;
        fault.at = microseconds(200 + 25 * moment);
        lost.faults.push_back(fault);
        for (int i = 0; i < 3; ++i)
          lost.connections.push_back(talk(30000, 30000, microseconds(100 * i)));
        (void)run(lost, 1000U + moment);
      }
}

TEST_P(Scenario, DrainLetsConnectionsEndAndMakesNewOnesTcp) {
  for (Pod pod = 1; pod <= 2; ++pod) {
    Plan drained = plan();
    Fault fault;
    fault.kind = Fault::Kind::kDrain;
    fault.pod = pod;
    fault.at = milliseconds(2);
    drained.faults.push_back(fault);
    drained.connections.push_back(talk(100000, 100000));
    drained.connections[0].client.pause_max = milliseconds(2);
    drained.connections.push_back(talk(1000, 1000, milliseconds(10)));
    const Outcome outcome = run(drained, pod);
    for (const Ends& ends : outcome.ends) EXPECT_TRUE(complete(ends));
    EXPECT_EQ(outcome.over_smc, 2u);
  }
}

TEST_P(Scenario, EndOfADrainIsAResetAndNoEnd) {
  for (Pod pod = 1; pod <= 2; ++pod)
    for (std::uint64_t seed = 1; seed <= 20; seed += kSweepStride) {
      Plan ended = plan();
      ended.stormy = true;
      Fault fault;
      fault.kind = Fault::Kind::kTerminate;
      fault.pod = pod;
      fault.at = microseconds(300 * seed);
      fault.grace = milliseconds(1);
      ended.faults.push_back(fault);
      ended.connections.push_back(talk(200000, 200000));
      ended.connections[0].client.pause_max = milliseconds(5);
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
    Fault fault;
    fault.kind = Fault::Kind::kKill;
    fault.pod = 2;
    fault.at = milliseconds(3) + microseconds(100 * seed);
    fault.lasting = seconds(1);
    killed.faults.push_back(fault);
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
  EXPECT_TRUE(complete(run(silent, 1).ends[0]));
}

// Only a device with addressable memory checks it this late.
class AddressableScenario : public Scenario {};
INSTANTIATE_TEST_SUITE_P(Devices, AddressableScenario, testing::Values(kAddressable), name_of);

// The client's memory turns out unusable only when the client has begun to use the connection.
TEST_P(AddressableScenario, LateRefusalOnALinkInUseHangsNobody) {
  Plan late = plan();
  late.stormy = true;
  Fault fault;
  fault.kind = Fault::Kind::kRefuseRemote;
  fault.pod = 2;
  fault.at = milliseconds(5);
  fault.lasting = seconds(100);
  late.faults.push_back(fault);
  late.connections.push_back(talk(100000, 100000));
  late.connections[0].client.pause_max = milliseconds(5);
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
