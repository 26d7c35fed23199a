// The RDMA devices of the node, as /sys/class/infiniband shows them.
#pragma once

#include <string>
#include <vector>

#include "cni/pod_plan.h"

namespace fairlead::cni {

inline constexpr std::size_t kRnicPortsMax = 64;

// Ports that are active, sorted by name. `sysfs` is "/sys" but in tests. No RDMA is no error.
std::vector<RnicPort> find_rnic_ports(const std::string& sysfs = "/sys");

}  // namespace fairlead::cni
