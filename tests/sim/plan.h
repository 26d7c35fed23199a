// Everything that is laid down before a simulation runs: who is there, who talks to whom and how,
// how the networks behave, and what goes wrong when. A plan is drawn from a seed, or written by
// hand for a scenario.
#pragma once

#include <vector>

#include "sim/application.h"
#include "sim/proxy.h"

namespace fairlead::sim {

struct FabricWeather {
  Duration delay_max = std::chrono::microseconds(20);
  unsigned straggler_per_mille = 2;
  Duration straggle_max = std::chrono::milliseconds(4);
  Duration retry_min = std::chrono::milliseconds(60);  // until a sender gives up
  Duration retry_max = std::chrono::seconds(3);
  unsigned announced_per_mille = 500;  // failures that the peer hears of by itself
};

struct ConnectionPlan {
  Pod from = 1;
  Pod to = 2;
  Duration at{};  // when the client connects, after the start
  bool listening = true;
  Script client, server;
};

struct Fault {
  enum class Kind : std::uint8_t {
    kQueuePairDies,
    kPortDown,  // comes back after `lasting`
    // The same, but only of what every link group can do without, so that nobody may notice. Waits
    // for that moment for a while.
    kSpareQueuePairDies,
    kSparePortDown,
    kKill,       // started again after `lasting`
    kTerminate,  // the same, in good order; `grace` is the deadline of the drain
    kDrain,
    kCut,           // a TCP connection between pods is reset
    kStall,         // the worker does nothing for `lasting`
    kRefuseMemory,  // by the device, so often in a thousand, while it lasts
    kRefuseQueuePairs,
    kRefuseConnect,
    kRefuseRemote,
  };
  Kind kind = Kind::kCut;
  Duration at{};
  Pod pod = 1;
  Duration lasting{};
  Duration grace{};
  unsigned per_mille = 1000;
};

struct Plan {
  std::vector<ProxySettings> proxies;  // pods 1, 2, …
  TcpWeather tcp;
  NetFaults net;
  FabricWeather fabric;
  std::vector<ConnectionPlan> connections;
  std::vector<Fault> faults;
  // Something in it may reset a connection that no application has reset.
  bool stormy = false;
};

ProxySettings default_proxy(Pod pod);
// Seeds from this one on mix versions of SMC-R; with others all proxies speak version 2.1 to each
// other.
inline constexpr std::uint64_t kMixedSeedsBegin = 1'000'000;
Plan draw_plan(Random random, std::uint64_t seed);

}  // namespace fairlead::sim
