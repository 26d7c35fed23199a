// The RDMA devices of the node, as /sys/class/infiniband shows them.
#pragma once

#include <string>
#include <vector>

#include "cni/pod_plan.h"

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
// Those of `table` that the node itself has on `interface`, by address: the table also has those of
// VLANs, of macvlans and of other namespaces, whose interface names mean nothing here. IPv4 first;
// no link-local ones. Pure.
std::vector<Gid> own_gids(const std::vector<TableGid>& table, const std::string& interface,
                          const std::vector<NodeAddress>& addresses);

// Ports that are active, sorted by name. `sysfs` is "/sys" but in tests. No RDMA is no error.
std::vector<RnicPort> find_rnic_ports(const std::string& sysfs = "/sys");

}  // namespace fairlead::cni
