// Connections whose end takes longer than the timeouts of the proxies.
#include <array>
#include <functional>

#include "relay/connection/smc_stage.h"
#include "sim/scenario.h"

namespace fairlead::sim {
namespace {

constexpr std::size_t kSocketBytes = 4096;
constexpr Duration kTalk = std::chrono::milliseconds(100);  // enough for a short conversation

class ClosingScenario : public Scenario {
 protected:
  static Plan with_small_sockets(Plan plan) {
    plan.tcp.buffer_bytes_min = plan.tcp.buffer_bytes_max = kSocketBytes;
    return plan;
  }
};

// Both applications have sent FIN, and the proxies hold data that one of them has not read.
TEST_P(ClosingScenario, AFinishedConnectionWaitsForAReaderThatStalls) {
  const std::uint64_t ring = default_proxy(1).config.buffers.size;
  for (const std::uint64_t bytes : {kSocketBytes + ring / 2, kSocketBytes + ring + ring / 2})
    for (const bool client_stalls : {false, true}) {
      Plan stalled = with_small_sockets(plan());
      stalled.connections.push_back(client_stalls ? talk(0, bytes) : talk(bytes, 0));
      Script& reader =
          client_stalls ? stalled.connections[0].client : stalled.connections[0].server;
      reader.stall_after = 0;
      reader.stall = relay::kCloseAnswerWait + seconds(10);
      Simulation cluster(stalled);
      cluster.pass(reader.stall - seconds(1));
      for (Pod pod = 1; pod <= 2; ++pod)
        EXPECT_EQ(cluster.proxy(pod).worker()->session_count(), 1u) << bytes << ", pod " << pod;
      SCOPED_TRACE(bytes);
      cluster.finish_whole(2u);
    }
}

// A writer sends, ends its stream and is reset, while the reader stalls for longer than any
// timeout.
TEST_P(ClosingScenario, WhatCameBeforeAFinIsReadWhateverComesBehindIt) {
  const std::uint64_t ring = default_proxy(1).config.buffers.size;
  const auto over_tcp = [](Plan& plan) {
    for (ProxySettings& settings : plan.proxies) settings.config.smc.enabled = false;
  };
  const auto in_frames = [](Plan& plan) {
    for (ProxySettings& settings : plan.proxies)
      settings.config.smc.defer_bytes = 64 * config::kKibibyte;
  };
  const auto over_smc = [](Plan&) {};
  const std::array<std::function<void(Plan&)>, 3> modes{over_smc, in_frames, over_tcp};
  for (std::size_t mode = 0; mode < modes.size(); ++mode)
    for (const std::uint64_t bytes : {kSocketBytes + ring / 2, kSocketBytes + 2 * ring})
      for (const bool client_stalls : {false, true}) {
        Plan gone = with_small_sockets(plan());
        modes[mode](gone);
        gone.connections.push_back(client_stalls ? talk(0, bytes) : talk(bytes, 0));
        ConnectionPlan& connection = gone.connections[0];
        Script& reader = client_stalls ? connection.client : connection.server;
        Script& writer = client_stalls ? connection.server : connection.client;
        writer.ending = Script::Ending::kVanish;
        reader.ending = Script::Ending::kAnswer;
        reader.stall_after = 0;
        reader.stall = relay::kCloseAnswerWait + seconds(10);
        const Outcome outcome = run(gone, 1);
        const EndReport& read = client_stalls ? outcome.ends[0].client : outcome.ends[0].server;
        EXPECT_EQ(read.received, bytes) << mode << ", client stalls: " << client_stalls;
        EXPECT_TRUE(read.saw_fin) << mode << ", client stalls: " << client_stalls;
      }
}

// The peer has closed its end of the TCP connection, its link answers, and the applications wait.
TEST_P(ClosingScenario, AConnectionThatThePeerForgotEndsInAReset) {
  Plan forgotten = plan();
  forgotten.stormy = true;
  forgotten.connections.push_back(talk(500, 300));
  forgotten.connections[0].client.ending = Script::Ending::kAnswer;
  forgotten.connections[0].server.ending = Script::Ending::kAnswer;
  Simulation cluster(forgotten);
  cluster.pass(kTalk);
  ASSERT_TRUE(cluster.net().end_one());
  const TimePoint ended = cluster.world.now();
  EXPECT_TRUE(cluster.run_until([&] { return cluster.conversation(0).over(); },
                                relay::kClcConnectionEndWait + kTalk));
  EXPECT_GE(cluster.world.now() - ended, relay::kClcConnectionEndWait);
  const Outcome outcome = cluster.finish();
  EXPECT_EQ(outcome.ends[0].client.received, 300u);
  EXPECT_EQ(outcome.ends[0].server.received, 500u);
  EXPECT_NE(outcome.ends[0].client.saw_error, 0);
  EXPECT_NE(outcome.ends[0].server.saw_error, 0);
  EXPECT_EQ(outcome.over_smc, 2u);
}

// Linux ends the TCP connection at a half-close too.
TEST_P(ClosingScenario, AHalfClosedConnectionGoesOnWhenItsTcpConnectionHasEnded) {
  Plan half = plan();
  half.connections.push_back(talk(1000, 0));
  half.connections[0].client.start_delay = 2 * relay::kClcConnectionEndWait;
  Simulation cluster(half);
  cluster.pass(kTalk);
  ASSERT_TRUE(cluster.net().end_one());
  cluster.finish_whole(2u);
}

INSTANTIATE_TEST_SUITE_P(Devices, ClosingScenario,
                         testing::Values(kAddressable, DeviceKind{"Staged", false, false, false},
                                         kReceiveQueueALink),
                         name_of);

}  // namespace
}  // namespace fairlead::sim
