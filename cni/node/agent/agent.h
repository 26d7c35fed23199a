// The running fairlead-node. It keeps the plugin installed, prints the plugin's log, and removes
// the state of ended pods. It is the broker of the node's sidecars, repairs pods, labels its node,
// and serves metrics.
//
// Threads: run() uses the caller's. Others are: metrics, which reads counters under a lock; the
// broker; one for each pod with a sidecar (agent_pods.h), and one that starts and ends these; calls
// to the API server; queries of the plugin; calls of the runtime (NRI); deliveries that follow from
// these; counters of RNICs. What a pod can make slow runs on a thread for that pod. Timers: a
// collection at the start and every kCollectInterval; a check of the pods' parts every
// check_interval.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/result.h"
#include "cni/node/agent/install.h"
#include "cni/node/cluster/cluster_chores.h"
#include "cni/node/nri/nri_plugin.h"
#include "cni/node/nri/rnic_access.h"
#include "cni/node/pods/pod_check.h"

namespace fairlead::cni::node {

// How sidecars get the device nodes of RNICs: from this process through the container runtime's
// NRI, from a device plugin of another project, or not at all.
enum class RnicAccessMode : std::uint8_t { kNri, kResource, kClaim, kNone };

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
  bool keeper = true;  // keeps connections of sidecars that are replaced
  std::chrono::duration<double> check_interval = PodCheck::kInterval;  // between looks at pods
};

inline constexpr std::chrono::minutes kCollectInterval{10};

class Agent {
 public:
  // Installs, opens the log socket in run_dir and listens. Errors name the cause in `what`.
  static Outcome<std::unique_ptr<Agent>> start(AgentSettings settings);
  ~Agent();

  // Returns at SIGTERM or SIGINT, which the caller has blocked. Removes nothing, because usually
  // another agent replaces this one.
  void run();

 private:
  struct Parts;
  explicit Agent(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace fairlead::cni::node
