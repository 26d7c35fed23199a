#include "cni/node/agent/inventory.h"

#include <rdma/rdma_netlink.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "base/linux/files.h"
#include "cni/netlink/socket.h"

namespace fairlead::cni::node {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNoGid = "0000:0000:0000:0000:0000:0000:0000:0000";

// Numeric order: 2 before 10.
std::vector<std::string> numbers_in(const fs::path& folder) {
  std::vector<std::string> names = names_in(folder);
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return names;
}

PortEntry read_port(const fs::path& folder, std::string name) {
  PortEntry port{
      std::move(name), first_line(folder / "state"), first_line(folder / "link_layer"), {}};
  // "4: ACTIVE"
  if (const std::size_t colon = port.state.find(": "); colon != std::string::npos)
    port.state.erase(0, colon + 2);
  for (const std::string& index : numbers_in(folder / "gids")) {
    std::string gid = first_line(folder / "gids" / index);
    if (gid.empty() || gid == kNoGid) continue;
    if (port.gids.size() == kGidsShownMax) break;
    unsigned number = 0;
    std::from_chars(index.data(), index.data() + index.size(), number);
    port.gids.push_back({number, std::move(gid), first_line(folder / "gid_attrs/types" / index),
                         first_line(folder / "gid_attrs/ndevs" / index)});
  }
  return port;
}

}  // namespace

// See rdma-system(8). Nothing changes the mode here: the kernel refuses while any namespace exists.
std::string rdma_mode() {
  auto socket = netlink::Socket::open(NETLINK_RDMA);
  if (!socket) return "none";
  netlink::Writer request;
  request.begin(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET), 0, 1, netlink::NoFamily{});
  request.end();
  const auto answer = socket->query(request);
  if (!answer) return "none";
  netlink::Bytes rest = *answer;
  netlink::Message message;
  while (netlink::next(rest, message)) {
    const netlink::Bytes mode =
        netlink::find(netlink::attributes_of(message, 0), RDMA_NLDEV_SYS_ATTR_NETNS_MODE);
    if (mode.size() == 1) return mode[0] != std::byte{0} ? "shared" : "exclusive";
  }
  return "none";
}

Inventory take_inventory(const std::string& sysfs, const std::string& procfs) {
  Inventory inventory;
  const fs::path devices = fs::path(sysfs) / "class/infiniband";
  for (const std::string& device : names_in(devices))
    for (const std::string& port : numbers_in(devices / device / "ports"))
      inventory.ports.push_back(read_port(devices / device / "ports" / port, device + "/" + port));
  inventory.rdma_mode = inventory.ports.empty() ? "none" : rdma_mode();
  std::error_code error;
  inventory.kernel_smc = fs::exists(fs::path(procfs) / "sys/net/smc", error) ? "loaded" : "absent";
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0) inventory.memlock_bytes = limit.rlim_cur;
  return inventory;
}

std::vector<std::string> wanted_ports(const NodeConfig& config) {
  std::vector<std::string> names;
  for (const Pnet& pnet : config.pnets)
    for (const RnicPortName& port : pnet.rnics) names.push_back(to_string(port));
  return names;
}

std::size_t missing_ports(const Inventory& inventory, const std::vector<std::string>& wanted) {
  return static_cast<std::size_t>(
      std::count_if(wanted.begin(), wanted.end(), [&](const std::string& name) {
        return std::none_of(inventory.ports.begin(), inventory.ports.end(),
                            [&name](const PortEntry& port) { return port.name == name; });
      }));
}

Json to_json(const Inventory& inventory) {
  Json ports = Json::array();
  for (const PortEntry& port : inventory.ports) {
    Json gids = Json::array();
    for (const GidEntry& gid : port.gids)
      gids.push_back({{"index", gid.index},
                      {"gid", gid.gid},
                      {"type", gid.type},
                      {"interface", gid.interface}});
    ports.push_back({{"name", port.name},
                     {"state", port.state},
                     {"link_layer", port.link_layer},
                     {"gids", std::move(gids)}});
  }
  Json json = {{"ports", std::move(ports)},
               {"rdma_mode", inventory.rdma_mode},
               {"kernel_smc", inventory.kernel_smc}};
  if (inventory.memlock_bytes == RLIM_INFINITY)
    json["memlock_bytes"] = "unlimited";
  else
    json["memlock_bytes"] = inventory.memlock_bytes;
  return json;
}

}  // namespace fairlead::cni::node
