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
#include <optional>
#include <string>
#include <vector>

#include "base/linux/handle.h"
#include "base/result.h"
#include "cni/node/agent/agent_metrics.h"
#include "cni/node/agent/agent_services.h"
#include "cni/node/agent/install.h"
#include "cni/node/agent/probes.h"
#include "cni/node/agent/rnic_counters.h"
#include "cni/node/cluster/cluster_chores.h"
#include "cni/node/nri/nri_plugin.h"
#include "cni/node/nri/rnic_access.h"
#include "cni/node/pods/pod_answers.h"
#include "cni/node/pods/pod_check.h"
#include "cni/node/reports/encryption_notes.h"
#include "cni/plugin/node_config.h"

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

  // Returns at SIGTERM or SIGINT, which the caller has blocked. Removes nothing, because usually
  // another agent replaces this one.
  void run();

 private:
  Agent(AgentSettings settings, FileDescriptor watcher, PluginLog log);
  // Errors: those of serve().
  Outcome<void> start_services();
  void note(const Outcome<Installed>& installed);
  void collect();
  void start_rnic_access(const Outcome<NodeConfigRead>& config);
  bool repairs_from(RepairSource source) const;
  void start_answers(const event::ApiServer& server);
  void start_chores(const Outcome<NodeConfigRead>& config);
  Outcome<void> serve();

  // Destroyed from the last one on: the chores use the connection to the runtime, and the probes
  // read what all others count.
  AgentSettings settings_;
  AgentMetrics metrics_;
  FileDescriptor watcher_;
  PluginLog log_;
  PodCheck check_;
  EncryptionNotes encryption_;
  std::vector<std::string> wanted_ports_;  // those that the configuration names
  std::optional<RnicCounterReader> rnic_counters_;
  BrokerService broker_;
  SidecarPods pods_;
  std::unique_ptr<PodAnswers> answers_;
  RnicAccessService rnic_access_;
  std::unique_ptr<Probes> probes_;
  std::optional<ClusterChores> chores_;
};

}  // namespace fairlead::cni::node
