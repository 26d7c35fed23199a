// Gives pods that were started before the plugin was there what ADD would have given them, while
// they run. Connections that are open stay as they are; new ones are redirected.
//
// One thread, which enters network namespaces.
#pragma once

#include <string>
#include <vector>

#include "cni/node/node_pods.h"
#include "cni/node/pod_places.h"
#include "cni/node_config.h"

namespace fairlead::cni::node {

struct RepairPlaces {
  std::string netns_dir = "/run/netns";
  std::string cgroup_root = "/sys/fs/cgroup";
};

struct Repaired {
  const NodePod* pod = nullptr;
  bool done = false;    // it is redirected now
  std::string trouble;  // why not, or what is missing nevertheless
};

// Each pod that has a sidecar which runs, and of which no state is known. Nothing while the plugin
// is switched off. What could not be done is taken back, and tried again by the next call.
std::vector<Repaired> repair(const RepairPlaces& places, const NodeConfig& config,
                             const std::vector<NodePod>& pods);

}  // namespace fairlead::cni::node
