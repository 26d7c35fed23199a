// fairlead-node while it runs: keeps the plugin installed, shows what the plugin says, collects
// what dead pods left, is the broker of the node's sidecars, repairs pods, labels its node, and
// tells about it in metrics.
//
// Threads: run() on the caller's; metrics on a second one, which reads counters under a lock; the
// broker on a third; what has to do with the API server on a fourth, and on a fifth the questions
// of the plugin; the runtime's questions about containers on a sixth, and what follows from them on
// a seventh; an eighth reads what RNICs count. Timers: a collection at the start and every
// kCollectInterval; a look at the pods' parts every check_interval.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/result.h"
#include "cni/node/cluster_chores.h"
#include "cni/node/install.h"
#include "cni/node/nri/nri_plugin.h"
#include "cni/node/nri/rnic_access.h"
#include "cni/node/pod_check.h"

namespace fairlead::cni::node {

// How sidecars get the device nodes of RNICs: from this process through the container runtime's
// NRI, from a device plugin of another project, or not at all.
enum class RnicAccessMode : std::uint8_t { kNri, kResource, kNone };

struct RnicAccessOptions {
  RnicAccessMode mode = RnicAccessMode::kNri;
  std::string socket = nri::kDefaultSocket;
  nri::RnicAccessPolicy policy;  // its sidecar_uid is that of the plugin's entry
  std::string sysfs = "/sys";
};

struct AgentSettings {
  Places places;
  OrderedJson entry;
  std::string listen;  // address and port of /metrics, /readyz and /livez; empty for none
  ClusterSettings cluster;
  RnicAccessOptions rnics;
  std::chrono::duration<double> check_interval = PodCheck::kInterval;  // between looks at pods
};

inline constexpr std::chrono::minutes kCollectInterval{10};

class Agent {
 public:
  // Installs, opens the log socket in run_dir and listens. Errors name the cause in `what`.
  static Outcome<std::unique_ptr<Agent>> start(AgentSettings settings);
  ~Agent();

  // Until SIGTERM or SIGINT, which the caller has blocked. Removes nothing: an agent that goes is
  // most often one that is being replaced.
  void run();

 private:
  struct Parts;
  explicit Agent(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace fairlead::cni::node
