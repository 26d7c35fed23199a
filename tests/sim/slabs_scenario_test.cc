// Empty slabs of rings are freed while their link group continues.
#include <algorithm>
#include <array>

#include "sim/scenario.h"
#include "sim/sim_queue_pair.h"
#include "wire/llc.h"

namespace fairlead::sim {
namespace {

class Slabs : public Scenario {
 protected:
  Plan with_idle_timeout(Duration idle) const {
    Plan plan = this->plan();
    for (ProxySettings& settings : plan.proxies) {
      settings.config.buffers.idle_timeout = idle;
      if (GetParam().apart) {
        settings.devices = 2;
        settings.config.smc.max_links = 2;
      }
      settings.config.smc.group_idle_timeout = seconds(20);
    }
    return plan;
  }
  // Sends data, is silent for a while, and sends again.
  static ConnectionPlan long_talk() {
    ConnectionPlan connection = talk(100000, 100000);
    connection.client.stall_after = connection.server.stall_after = 5000;
    connection.client.stall = connection.server.stall = milliseconds(500);
    return connection;
  }
  // Concurrent connections, more than fit into two slabs.
  static void add_burst(Plan& plan, Duration at) {
    for (int i = 0; i < kBurst; ++i) {
      plan.connections.push_back(talk(3000, 3000, at + microseconds(10 * i)));
      plan.connections.back().client.start_delay = milliseconds(3);
    }
  }
  static constexpr int kBurst = 20;
};

TEST_P(Slabs, OfABurstGoBackWhileOneConnectionGoesOn) {
  Plan burst = with_idle_timeout(milliseconds(50));
  burst.connections.push_back(long_talk());
  add_burst(burst, milliseconds(5));
  Simulation cluster(burst);
  std::size_t most = 0;
  const auto all_back = [&] {
    for (Pod pod = 1; pod <= 2; ++pod) {
      if (cluster.proxy(pod).worker()->groups().peers().count() == 0) return false;
      const std::size_t slabs = cluster.only_group_of(pod).memory().rmbs().slab_count();
      most = std::max(most, slabs);
      if (slabs != 1 || cluster.proxy(pod).stats().slabs_returned.get() < 2) return false;
    }
    return true;
  };
  EXPECT_TRUE(cluster.run_until(all_back, milliseconds(400)));
  EXPECT_GT(most, 2u);
  for (Pod pod = 1; pod <= 2; ++pod) {
    EXPECT_EQ(cluster.proxy(pod).worker()->session_count(), 1u);
    const std::size_t slabs = GetParam().addressable ? 1 : 2;  // another of send rings
    EXPECT_LE(cluster.proxy(pod).stats().pinned_bytes.get(), slabs * 8 * 16 * config::kKibibyte);
  }
  cluster.finish_whole(2u * (1 + kBurst));
}

TEST_P(Slabs, WithoutAnIdleTimeoutOverTheyStay) {
  Plan burst = with_idle_timeout(seconds(30));
  burst.connections.push_back(long_talk());
  add_burst(burst, milliseconds(5));
  Simulation cluster(burst);
  cluster.pass(milliseconds(400));
  EXPECT_GT(cluster.only_group_of(1).memory().rmbs().slab_count(), 2u);
  EXPECT_EQ(cluster.proxy(1).stats().slabs_returned.get(), 0u);
  cluster.finish();
}

// Connections begin while slabs are freed: each finds room, and all its bytes arrive.
TEST_P(Slabs, ComeAndGoAllTheTime) {
  std::uint64_t returned = 0;
  for (const Duration idle : {Duration{}, Duration(microseconds(100)), Duration(milliseconds(1))})
    for (unsigned seed = 1; seed <= 20; seed += kSweepStride) {
      Plan busy = with_idle_timeout(idle);
      busy.connections.push_back(long_talk());
      for (int i = 0; i < 4; ++i) add_burst(busy, milliseconds(1 + 7 * i));
      Simulation cluster(busy, seed);
      cluster.pass(milliseconds(100));
      returned += cluster.proxy(1).stats().slabs_returned.get();
      cluster.finish_whole(2u * (1 + 4 * kBurst));
    }
  EXPECT_GT(returned, 100u);
}

// A peer without room for another key: those that wait for it are TCP, before anything is lost.
TEST_P(Slabs, WhoseKeysThePeerRefusesMeanTcp) {
  for (Pod refusing = 1; refusing <= 2; ++refusing) {
    Plan burst = with_idle_timeout(milliseconds(50));
    burst.connections.push_back(long_talk());
    add_burst(burst, milliseconds(20));
    burst.connections.push_back(talk(3000, 3000, seconds(5)));
    Simulation cluster(burst);
    unsigned refused = 0;
    const std::span<SimDevice* const> devices = cluster.proxy(refusing).devices();
    devices[0]->fabric().alter = [&](const SimQueuePair& sender, std::span<std::byte> message) {
      if (std::find(devices.begin(), devices.end(), &sender.device()) == devices.end()) return;
      Result<wire::LlcMessage> llc = wire::decode_llc(message);
      auto* answer = llc ? std::get_if<wire::ConfirmRkey>(&llc->body) : nullptr;
      if (answer == nullptr || answer->kind != wire::LlcKind::kResponse) return;
      answer->refused = true;
      ++refused;
      std::array<std::byte, wire::kLlcBytesMax> bytes{};
      ASSERT_EQ(wire::encode(*llc, bytes), message.size());
      std::copy_n(bytes.begin(), message.size(), message.begin());
    };
    const Outcome outcome = cluster.finish_whole();
    const std::uint64_t declined =
        cluster.fallbacks(peer_of(refusing), Side::kLocal, FallbackReason::kMemoryRegistration);
    EXPECT_EQ(declined, std::uint64_t{kBurst} - 3) << "pod " << refusing;
    EXPECT_EQ(outcome.over_smc, 2U * (2 + kBurst - declined)) << "pod " << refusing;
    EXPECT_GE(refused, 1U) << "pod " << refusing;
  }
}

class SlabsOfTwoLinks : public Slabs {};

// Meanwhile a device or port fails, with its link.
TEST_P(SlabsOfTwoLinks, GoBackWhileLinksDieAndReturn) {
  std::uint64_t moved = 0;
  for (Pod pod = 1; pod <= 2; ++pod)
    for (unsigned moment = 0; moment < 40; moment += kSweepStride) {
      Plan flap = with_idle_timeout(microseconds(200));
      flap.fabric.retry_max = milliseconds(200);
      for (unsigned i = 0; i < 3; ++i)
        flap.faults.push_back({.kind = Kind::kSparePortDown,
                               .at = microseconds(1000 + 100 * moment + 4000 * i),
                               .pod = i == 1 ? peer_of(pod) : pod,
                               .lasting = milliseconds(2)});
      flap.connections.push_back(long_talk());
      for (int i = 0; i < 3; ++i) add_burst(flap, milliseconds(1 + 5 * i));
      moved += run_whole(flap, 100U + moment, 2u * (1 + 3 * kBurst)).moved;
    }
  EXPECT_GT(moved, 40u / kSweepStride);
}

constexpr DeviceKind kOneDevice[] = {kAddressable, kStaged};
constexpr DeviceKind kTwoDevices[] = {{"TwoDevices", false, true},
                                      {"TwoAddressableDevices", true, true},
                                      {"TwoSevereDevices", false, true, false}};

INSTANTIATE_TEST_SUITE_P(OneDevice, Slabs, testing::ValuesIn(kOneDevice), name_of);
INSTANTIATE_TEST_SUITE_P(TwoDevices, Slabs, testing::ValuesIn(kTwoDevices), name_of);
INSTANTIATE_TEST_SUITE_P(TwoDevices, SlabsOfTwoLinks, testing::ValuesIn(kTwoDevices), name_of);

}  // namespace
}  // namespace fairlead::sim
