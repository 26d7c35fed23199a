#include "cni/rnics.h"

#include <filesystem>

#include "cni/files.h"

namespace fairlead::cni {
namespace {

namespace fs = std::filesystem;

std::string mac_of(const fs::path& sysfs, const std::string& interface) {
  std::string mac = first_line(sysfs / "class/net" / interface / "address");
  std::erase(mac, ':');
  return mac.size() == 12 ? mac : std::string();
}

}  // namespace

std::vector<RnicPort> find_rnic_ports(const std::string& sysfs) {
  std::vector<RnicPort> found;
  const fs::path devices = fs::path(sysfs) / "class/infiniband";
  for (const std::string& device : names_in(devices)) {
    for (const std::string& port : names_in(devices / device / "ports")) {
      const fs::path folder = devices / device / "ports" / port;
      // "4: ACTIVE"
      if (first_line(folder / "state").find("ACTIVE") == std::string::npos) continue;
      if (found.size() == kRnicPortsMax) return found;
      const auto name = parse_rnic_port(device + "/" + port);
      if (!name) continue;
      RnicPort one{*name, first_line(folder / "gid_attrs/ndevs/0"), ""};
      if (!one.interface.empty()) one.mac = mac_of(sysfs, one.interface);
      found.push_back(std::move(one));
    }
  }
  return found;
}

}  // namespace fairlead::cni
