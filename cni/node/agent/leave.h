// Uninstalls Fairlead from a node. Pods that start afterwards are not set up, and running pods
// connect without their sidecar.
#pragma once

#include <chrono>
#include <string>

#include "cni/node/agent/install.h"
#include "cni/node/cluster/cluster_chores.h"

namespace fairlead::cni::node {

// Removes entry and switch, then the setup of running pods, the binaries, and the state of the node
// side in run_dir. `cgroup_root` is where this process sees the node's cgroups. The call can be
// repeated.
Outcome<void> leave_node(const Places& places, const std::string& cgroup_root);

struct LeaveSettings {
  Places places;
  std::string listen;  // of the probes; empty for none
  ClusterSettings cluster;
};

// Uninstalls, removes the labels of the node, and reports ready when all of that is done. Returns
// at SIGTERM or SIGINT, which the caller has blocked. So the status of the pods shows which nodes
// are done. Failed steps are repeated every ClusterSettings::interval.
Outcome<void> leave_and_stay(const LeaveSettings& settings);

}  // namespace fairlead::cni::node
