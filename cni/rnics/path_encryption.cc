#include "cni/rnics/path_encryption.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace fairlead::cni {
namespace {

// Links whose packets contain the packets of pods.
constexpr std::array<std::string_view, 12> kTunnelKinds = {
    "vxlan", "geneve", "gre",    "gretap",    "erspan",    "ipip",
    "sit",   "ip6gre", "ip6tnl", "ip6gretap", "ip6erspan", "openvswitch"};
constexpr std::array<std::uint8_t, 3> kTunnelProtocols = {IPPROTO_GRE, IPPROTO_IPIP, IPPROTO_IPV6};
// UDP ports of VXLAN, of VXLAN in older systems, of Geneve.
constexpr std::array<std::uint16_t, 3> kTunnelPorts = {4789, 8472, 6081};

template <class Range, class T>
bool has(const Range& range, const T& value) {
  return std::find(range.begin(), range.end(), value) != range.end();
}

bool covers_any(const Cidr& block, const std::vector<SocketAddress>& addresses) {
  return std::any_of(addresses.begin(), addresses.end(),
                     [&](const SocketAddress& address) { return block.contains(address); });
}

bool carries_tcp(const IpsecPolicy& policy) {
  return policy.protocol == 0 || policy.protocol == IPPROTO_TCP;
}

bool names_tunnel(const IpsecPolicy& policy) {
  if (policy.protocol == IPPROTO_UDP)
    return has(kTunnelPorts, policy.destination_port) || has(kTunnelPorts, policy.source_port) ||
           (policy.destination_port == 0 && policy.source_port == 0);
  return has(kTunnelProtocols, policy.protocol);
}

bool is_host(const Cidr& block) {
  return block.prefix_length() == (block.family() == AF_INET ? 32U : 128U);
}

// True if the policy encrypts the tunnel packets between nodes that contain packets of pods.
bool encrypts_tunnel(const IpsecPolicy& policy, const PathFacts& node) {
  if (!covers_any(policy.from, node.addresses)) return false;
  const bool tunnel = std::any_of(node.links.begin(), node.links.end(), [](const PathLink& link) {
    return has(kTunnelKinds, std::string_view(link.kind));
  });
  if (!tunnel) return false;
  // A policy for any protocol may also be for a VPN client's network. One between nodes has a
  // single host as its destination.
  return names_tunnel(policy) || (policy.protocol == 0 && is_host(policy.to));
}

void add_routes(const PathFacts& facts, EncryptedPaths& paths) {
  for (const PathRoute& route : facts.routes)
    for (const PathLink& link : facts.links)
      if (encrypts(link) && (has(route.links, link.index) || has(route.links, kAnyLink))) {
        paths.blocks.push_back(route.to);
        break;
      }
  paths.blocks.insert(paths.blocks.end(), facts.behind_wireguard.begin(),
                      facts.behind_wireguard.end());
}

void add_policies(const PathFacts& facts, const std::vector<SocketAddress>& sources,
                  EncryptedPaths& paths) {
  for (const IpsecPolicy& policy : facts.policies)
    if (carries_tcp(policy) && (sources.empty() || covers_any(policy.from, sources)))
      paths.blocks.push_back(policy.to);
}

}  // namespace

EncryptedPaths encrypted_paths(const PathFacts& pod, const PathFacts& node) {
  EncryptedPaths paths;
  paths.all = pod.incomplete || node.incomplete ||
              std::any_of(node.policies.begin(), node.policies.end(),
                          [&](const IpsecPolicy& policy) { return encrypts_tunnel(policy, node); });
  for (const PathFacts* facts : {&pod, &node}) {
    add_routes(*facts, paths);
    add_policies(*facts, pod.addresses, paths);
  }
  return simplified(std::move(paths));
}

}  // namespace fairlead::cni
