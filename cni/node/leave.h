// Taking Fairlead off a node, as when the chart is uninstalled: no pod that starts afterwards meets
// it, and those that run connect without their sidecar.
#pragma once

#include <chrono>
#include <string>

#include "cni/node/cluster_chores.h"
#include "cni/node/install.h"

namespace fairlead::cni::node {

// Entry and switch, then what running pods have been given, the binaries, and what the node side
// kept in run_dir. `cgroup_root` is where this process sees the node's cgroups. May be called at
// any time again.
Outcome<void> leave_node(const Places& places, const std::string& cgroup_root);

struct LeaveSettings {
  Places places;
  std::string listen;  // of the probes; empty for none
  ClusterSettings cluster;
};

// Leaves, takes the labels off the node, is ready when all of that is done, and stays until SIGTERM
// or SIGINT, which the caller has blocked: so whoever takes Fairlead off a cluster sees which nodes
// it has left. What fails is tried again every ClusterSettings::interval.
Outcome<void> leave_and_stay(const LeaveSettings& settings);

}  // namespace fairlead::cni::node
