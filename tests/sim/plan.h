// Everything that is fixed before a simulation runs: proxies, connections, behaviour of the
// networks, and failures with their times. A plan is drawn from a seed, or written by hand for a
// scenario.
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
  unsigned announced_per_mille = 500;  // failures of which the peer is notified
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
    // The same, but only if every link group has another link, so that no connection may notice.
    // Waits for a while for such a moment.
    kSpareQueuePairDies,
    kSparePortDown,
    kKill,       // started again after `lasting`
    kTerminate,  // the same, in good order; `grace` is the deadline of the drain
    kDrain,
    kHandOver,      // another process goes on with its connections; `grace` is hand_over.settle
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
  // True if events of the plan may reset a connection that no application has reset.
  bool stormy = false;
  // True if a proxy may refuse a new connection, for want of memory.
  bool scarce() const;
};

ProxySettings default_proxy(Pod pod);
// Seeds from this one on mix versions of SMC-R; with others all proxies speak version 2.1 to each
// other.
inline constexpr std::uint64_t kMixedSeedsBegin = 1'000'000;
// Seeds from this one on are calm, and memory.limit is so small that connections reach it.
inline constexpr std::uint64_t kScarceSeedsBegin = 1'000'000'000'000;
// Seeds from this one on are calm, and proxies are replaced by others while connections go on,
// which may neither end nor lose a byte.
inline constexpr std::uint64_t kReplacedSeedsBegin = 2'000'000'000'000;
Plan draw_plan(Random random, std::uint64_t seed);

}  // namespace fairlead::sim
