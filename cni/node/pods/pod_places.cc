#include "cni/node/pods/pod_places.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/linux/files.h"
#include "base/linux/handle.h"
#include "base/result.h"

namespace fairlead::cni::node {
namespace {

// Addresses and interfaces of the thread's current namespace.
std::vector<std::pair<SocketAddress, std::string>> present_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const Handle<ifaddrs, ::freeifaddrs> list(first);
  std::vector<std::pair<SocketAddress, std::string>> present;
  for (const ifaddrs* one = list.get(); one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const auto length =
        one->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    const auto address = SocketAddress::from(one->ifa_addr, static_cast<socklen_t>(length));
    if (address) present.emplace_back(address->with_port(0), one->ifa_name);
  }
  return present;
}

std::optional<SocketAddress> without_port(const std::string& text) {
  const bool v6 = text.find(':') != std::string::npos;
  const auto address = SocketAddress::parse(v6 ? "[" + text + "]:0" : text + ":0");
  return address ? std::optional(*address) : std::nullopt;
}

bool is_link_local(const SocketAddress& address) {
  constexpr std::uint8_t kFirst = 0xfe, kSecond = 0x80, kSecondMask = 0xc0;  // fe80::/10
  const auto bytes = address.bytes();
  return address.is_v6() && bytes[0] == kFirst && (bytes[1] & kSecondMask) == kSecond;
}

using Present = std::vector<std::pair<SocketAddress, std::string>>;

std::string pod_interface(const Present& present, const std::vector<std::string>& addresses) {
  constexpr const char* kUsual = "eth0";  // the name that the kubelet's runtimes use
  for (const std::string& text : addresses)
    for (const auto& [address, ifname] : present)
      if (without_port(text) == address) return ifname;
  const bool usual = std::any_of(present.begin(), present.end(),
                                 [](const auto& one) { return one.second == kUsual; });
  return usual ? kUsual : present.front().second;
}

}  // namespace

Result<PodNetns, std::string> look_into(const std::string& path, const NetnsIdentity& identity,
                                        const std::vector<std::string>& addresses) {
  const Result<Netns> netns = Netns::open(path);
  if (!netns) return tl::unexpected(path + ": " + to_string(netns.error()));
  if (netns->identity() != identity)
    return tl::unexpected(path + ": another network namespace than the pod's");
  const Result<NetnsVisit> visit = NetnsVisit::enter(*netns);
  if (!visit) return tl::unexpected(path + ": " + to_string(visit.error()));
  Present present = present_addresses();
  // Every interface has a link-local address, and no connection of the pod uses it.
  std::erase_if(present, [](const auto& one) { return is_link_local(one.first); });
  if (present.empty()) return tl::unexpected(std::string("the pod has no address"));
  PodNetns found{path, identity, pod_interface(present, addresses), addresses};
  if (!addresses.empty()) return found;
  for (const auto& [address, ifname] : present)
    if (ifname == found.ifname && found.addresses.size() < kPodAddressesMax)
      found.addresses.push_back(to_string_without_port(address));
  return found;
}

NetnsAddresses NetnsAddresses::read(const std::string& folder) {
  NetnsAddresses all;
  std::size_t entered = 0;
  for (const std::string& name : names_in(folder)) {
    if (++entered > kNamespacesMax) break;
    const std::string path = folder + "/" + name;
    const Result<Netns> netns = Netns::open(path);
    if (!netns) continue;
    const Result<NetnsVisit> visit = NetnsVisit::enter(*netns);
    if (!visit) continue;
    for (auto& [address, ifname] : present_addresses())
      all.found_.emplace(address, PodNetns{path, netns->identity(), std::move(ifname)});
  }
  return all;
}

Result<PodNetns, std::string> NetnsAddresses::find(
    const std::vector<std::string>& addresses) const {
  std::optional<PodNetns> found;
  for (const std::string& text : addresses) {
    const auto address = without_port(text);
    const auto [first, last] =
        address ? found_.equal_range(*address) : std::pair(found_.end(), found_.end());
    if (first == last) return tl::unexpected("no network namespace has the address " + text);
    for (auto one = first; one != last; ++one) {
      if (found && found->identity != one->second.identity)
        return tl::unexpected("two network namespaces have the address " + text);
      if (!found) found = one->second;
    }
  }
  if (!found) return tl::unexpected(std::string("the pod has no address"));
  return *found;
}

}  // namespace fairlead::cni::node
