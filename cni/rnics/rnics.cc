#include "cni/rnics/rnics.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/linux/files.h"
#include "base/linux/handle.h"

namespace fairlead::cni {
namespace {

namespace fs = std::filesystem;

std::string mac_of(const fs::path& sysfs, const std::string& interface) {
  std::string mac = first_line(sysfs / "class/net" / interface / "address");
  std::erase(mac, ':');
  return mac.size() == 12 ? mac : std::string();
}

std::vector<TableGid> read_gids(const fs::path& port) {
  std::vector<TableGid> table;
  for (std::size_t index = 0; index < kGidsReadMax; ++index) {
    const std::string number = std::to_string(index);
    const std::string text = first_line(port / "gids" / number);
    if (text.empty()) break;
    TableGid entry;
    if (::inet_pton(AF_INET6, text.c_str(), entry.gid.bytes.data()) != 1 || entry.gid.is_zero())
      continue;
    entry.type = first_line(port / "gid_attrs/types" / number);
    table.push_back(std::move(entry));
  }
  return table;
}

bool is_link_local(const Gid& gid) { return gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0) == 0x80; }

}  // namespace

std::vector<NodeAddress> node_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const Handle<ifaddrs, ::freeifaddrs> list(first);
  std::vector<NodeAddress> found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    NodeAddress one{entry->ifa_name, {}};
    if (entry->ifa_addr->sa_family == AF_INET) {
      sockaddr_in address{};
      std::memcpy(&address, entry->ifa_addr, sizeof address);
      one.address.bytes[10] = one.address.bytes[11] = 0xff;
      std::memcpy(one.address.bytes.data() + 12, &address.sin_addr, sizeof address.sin_addr);
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 address{};
      std::memcpy(&address, entry->ifa_addr, sizeof address);
      std::memcpy(one.address.bytes.data(), &address.sin6_addr, sizeof address.sin6_addr);
    } else {
      continue;
    }
    found.push_back(std::move(one));
  }
  return found;
}

std::vector<Gid> own_gids(const std::vector<TableGid>& table, const std::string& interface,
                          const std::vector<NodeAddress>& addresses) {
  std::vector<Gid> own;
  for (const bool v4 : {true, false})
    for (const TableGid& entry : table) {
      if (entry.type != "RoCE v2" || entry.gid.is_ipv4_mapped() != v4 || is_link_local(entry.gid))
        continue;
      const auto holds = [&](const NodeAddress& address) {
        return address.interface == interface && address.address == entry.gid;
      };
      if (std::any_of(addresses.begin(), addresses.end(), holds)) own.push_back(entry.gid);
    }
  return own;
}

std::vector<RnicPort> find_rnic_ports(const std::string& sysfs) {
  std::vector<RnicPort> found;
  const std::vector<NodeAddress> addresses = node_addresses();
  const fs::path devices = fs::path(sysfs) / "class/infiniband";
  for (const std::string& device : names_in(devices)) {
    for (const std::string& port : names_in(devices / device / "ports")) {
      const fs::path folder = devices / device / "ports" / port;
      // "4: ACTIVE"
      if (first_line(folder / "state").find("ACTIVE") == std::string::npos) continue;
      if (found.size() == kRnicPortsMax) return found;
      const auto name = parse_rnic_port(device + "/" + port);
      if (!name) continue;
      RnicPort one{*name, first_line(folder / "gid_attrs/ndevs/0"), "", {}};
      if (!one.interface.empty()) {
        one.mac = mac_of(sysfs, one.interface);
        one.gids = own_gids(read_gids(folder), one.interface, addresses);
      }
      found.push_back(std::move(one));
    }
  }
  return found;
}

}  // namespace fairlead::cni
