// The RDMA devices of the node, as /sys/class/infiniband shows them.
#pragma once

#include <string>
#include <vector>

#include "cni/plugin/pod_plan.h"

namespace fairlead::cni {

inline constexpr std::size_t kRnicPortsMax = 64;

inline constexpr std::size_t kGidsReadMax = 32;  // of one port's table

// An address of an interface of the node.
struct NodeAddress {
  std::string interface;
  Gid address;
};
std::vector<NodeAddress> node_addresses();

struct TableGid {
  Gid gid;
  std::string type;  // of sysfs: "RoCE v2"
};
// GIDs of `table` whose address the node itself has on `interface`. The table also has those of
// VLANs, macvlans and other namespaces, whose interface names are not valid here. IPv4 first; no
// link-local ones. Pure.
std::vector<Gid> own_gids(const std::vector<TableGid>& table, const std::string& interface,
                          const std::vector<NodeAddress>& addresses);

// Active ports, sorted by name. `sysfs` is "/sys" except in tests. Absence of RDMA is no error.
std::vector<RnicPort> find_rnic_ports(const std::string& sysfs = "/sys");

}  // namespace fairlead::cni
