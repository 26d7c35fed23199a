// What the kernel says of the ways out of a network namespace: links, addresses, routes, IPsec
// policies, and the networks behind a WireGuard link. Readers of netlink answers are pure and trust
// no length; read_path_facts() asks the kernel.
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

// How much of a namespace is read. Whoever holds CAP_NET_ADMIN in a pod can fill its tables.
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
  // Indexes, one for each next hop; kAnyLink for next hops that the kernel does not tell.
  std::vector<std::uint32_t> links;
  friend bool operator==(const PathRoute&, const PathRoute&) = default;
};

// An IPsec policy for packets that leave, which asks for ESP or AH.
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

// Links whose CNI plugin redirects packets to them without a route: only their AllowedIPs say for
// which destinations.
inline constexpr std::array<std::string_view, 1> kAllowedIpsLinks = {"cilium_wg0"};

// Routes to such a link lead into a tunnel that encrypts.
bool encrypts(const PathLink& link);

// Each takes the answer to one dump, messages one after the other, and leaves out the malformed.
std::vector<PathLink> links_in(netlink::Bytes answer);
std::vector<SocketAddress> addresses_in(netlink::Bytes answer);
std::vector<PathRoute> routes_in(netlink::Bytes answer);
std::vector<IpsecPolicy> policies_in(netlink::Bytes answer);
// Nothing where some message is malformed: no network may be left out.
std::optional<std::vector<Cidr>> allowed_ips_in(netlink::Bytes answer);

// Of the network namespace of the calling thread. Needs CAP_NET_ADMIN there. One dump each of links
// and policies; those of addresses, routes and AllowedIPs only where the first two make them
// matter. Never waits for anything but the kernel. Errors: those of the dumps of links, addresses
// and routes.
Result<PathFacts> read_path_facts(const PathLook& look);

// What to ask in the namespace of the node, and then in that of a pod.
PathLook look_at_node();
PathLook look_at_pod(const PathFacts& node);

}  // namespace fairlead::cni
