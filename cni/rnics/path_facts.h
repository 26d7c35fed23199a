// The kernel's tables about paths out of a network namespace: links, addresses, routes, IPsec
// policies, and the networks behind a WireGuard link. Parsers of netlink answers are pure and trust
// no length; read_path_facts() queries the kernel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "cni/netlink/message.h"

namespace fairlead::cni {

// Limits for reading a namespace. A process with CAP_NET_ADMIN in a pod can fill its tables.
struct PathLook {
  std::size_t bytes_max = 0;  // of each table; the facts of a namespace with more are incomplete
  bool ipsec = true;          // false: the kernel has none, so it is not asked
  bool addresses = false;     // also without a policy of this namespace
};

struct PathLink {
  std::uint32_t index = 0;
  std::string name;
  std::string kind;  // "wireguard"; empty for hardware
  friend bool operator==(const PathLink&, const PathLink&) = default;
};

inline constexpr std::uint32_t kAnyLink = 0;

struct PathRoute {
  Cidr to;
  // Indexes, one for each next hop; kAnyLink for next hops that the kernel does not report.
  std::vector<std::uint32_t> links;
  friend bool operator==(const PathRoute&, const PathRoute&) = default;
};

// An IPsec policy for outgoing packets that requires ESP or AH.
struct IpsecPolicy {
  Cidr from, to;
  std::uint8_t protocol = 0;                            // of the selector; 0: any
  std::uint16_t source_port = 0, destination_port = 0;  // 0: any
  friend bool operator==(const IpsecPolicy&, const IpsecPolicy&) = default;
};

struct PathFacts {
  std::vector<PathLink> links;
  std::vector<IpsecPolicy> policies;
  std::vector<SocketAddress> addresses;  // without those of lo; port 0
  // Unicast, of all tables but that of local addresses; none without a link that encrypts.
  std::vector<PathRoute> routes;
  std::vector<Cidr> behind_wireguard;  // AllowedIPs of kAllowedIpsLinks
  bool without_ipsec = false;          // the kernel has none
  bool incomplete = false;             // something that may encrypt could not be read
};

// Links to which a CNI plugin redirects packets without a route. Only their AllowedIPs show the
// destinations.
inline constexpr std::array<std::string_view, 1> kAllowedIpsLinks = {"cilium_wg0"};

// Routes to such a link lead into a tunnel that encrypts.
bool encrypts(const PathLink& link);

// Each parses the answer to one dump and skips malformed messages.
std::vector<PathLink> links_in(netlink::Bytes answer);
std::vector<SocketAddress> addresses_in(netlink::Bytes answer);
std::vector<PathRoute> routes_in(netlink::Bytes answer);
std::vector<IpsecPolicy> policies_in(netlink::Bytes answer);
// Nothing if a message is malformed, because the list must not lack a network.
std::optional<std::vector<Cidr>> allowed_ips_in(netlink::Bytes answer);

// Reads the network namespace of the calling thread. Needs CAP_NET_ADMIN there. Dumps links and
// policies, and addresses, routes and AllowedIPs only if a link or policy requires it. Waits for
// the kernel only. Errors: those of the dumps of links, addresses and routes.
Result<PathFacts> read_path_facts(const PathLook& look);

// Limits for the namespace of the node, and then for that of a pod.
PathLook look_at_node();
PathLook look_at_pod(const PathFacts& node);

}  // namespace fairlead::cni
