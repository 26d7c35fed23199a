// Inventory of a node for SMC-R, for users and for the choice of a PNET.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cni/plugin/json_text.h"
#include "cni/plugin/node_config.h"

namespace fairlead::cni::node {

inline constexpr std::size_t kGidsShownMax = 16;  // of one port; GID tables have 256 entries

struct GidEntry {
  unsigned index = 0;
  std::string gid;        // "fe80:0000:..."
  std::string type;       // "RoCE v2", "IB/RoCE v1"
  std::string interface;  // the one whose address it is
};

struct PortEntry {
  std::string name;        // "mlx5_0/1"
  std::string state;       // "ACTIVE", "DOWN", ...
  std::string link_layer;  // "Ethernet", "InfiniBand"
  std::vector<GidEntry> gids;
};

struct Inventory {
  std::vector<PortEntry> ports;
  // "shared": pods can use the node's devices. "exclusive": they cannot. "none": no RDMA.
  std::string rdma_mode;
  std::string kernel_smc;           // "loaded" or "absent"
  std::uint64_t memlock_bytes = 0;  // limit of this process; ~0 for none
};

// "shared", "exclusive" or "none", as in Inventory. Queries the kernel; never blocks.
std::string rdma_mode();

// `sysfs` and `procfs` are "/sys" and "/proc" except in tests.
Inventory take_inventory(const std::string& sysfs = "/sys", const std::string& procfs = "/proc");
Json to_json(const Inventory& inventory);

// Ports that the configuration names, such as "mlx5_0/1", and the number of missing ones.
std::vector<std::string> wanted_ports(const NodeConfig& config);
std::size_t missing_ports(const Inventory& inventory, const std::vector<std::string>& wanted);

}  // namespace fairlead::cni::node
