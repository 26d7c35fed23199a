// Kubernetes Events of the node agent about a pod of its node.
#pragma once

#include <string>

#include "event/https/cluster_event.h"

namespace fairlead::cni::node {

// An Event without reason and message. `node`: the name of the node that reports it.
event::ClusterEvent pod_event(const std::string& node, const std::string& name_space,
                              const std::string& pod, const std::string& uid);

}  // namespace fairlead::cni::node
