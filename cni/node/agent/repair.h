// Sets up running pods that are older than the plugin, as ADD would have done. Open connections are
// not changed; new ones are redirected. A pod whose network namespace is unknown is searched by its
// addresses.
//
// One thread, which enters network namespaces.
#pragma once

#include <string>
#include <vector>

#include "cni/node/pods/node_pods.h"
#include "cni/node/pods/pod_places.h"
#include "cni/plugin/node_config.h"

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

// The pods without state that opted in, or of which this is unknown because they are unread.
std::vector<NodePod> without_state(const std::string& run_dir, std::vector<NodePod> pods);

// Repairs each pod that has a running sidecar and no state. Does nothing while the plugin is
// switched off. A failed repair is reverted, and repeated by the next call. An unread pod is one
// that could not be repaired.
std::vector<Repaired> repair(const RepairPlaces& places, const NodeConfig& config,
                             const std::vector<NodePod>& pods);

}  // namespace fairlead::cni::node
