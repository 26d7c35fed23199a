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

// Of each table; the facts of a namespace with more are incomplete.
inline constexpr std::size_t kPathFactsMax = 16384;

struct PathLink {
  std::uint32_t index = 0;
  std::string name;
  std::string kind;  // "wireguard"; empty for hardware
  friend bool operator==(const PathLink&, const PathLink&) = default;
};

struct PathRoute {
  Cidr to;
  std::vector<std::uint32_t> links;  // indexes, one for each next hop
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
  std::vector<SocketAddress> addresses;  // without those of lo; port 0
  std::vector<PathRoute> routes;         // unicast, of all tables but that of local addresses
  std::vector<IpsecPolicy> policies;
  std::vector<Cidr> behind_wireguard;  // AllowedIPs of kAllowedIpsLinks
  bool incomplete = false;             // something that may encrypt could not be read
};

// Links whose CNI plugin redirects packets to them without a route: only their AllowedIPs say for
// which destinations.
inline constexpr std::array<std::string_view, 1> kAllowedIpsLinks = {"cilium_wg0"};

// Each takes the answer to one dump, messages one after the other, and leaves out the malformed.
std::vector<PathLink> links_in(netlink::Bytes answer);
std::vector<SocketAddress> addresses_in(netlink::Bytes answer);
std::vector<PathRoute> routes_in(netlink::Bytes answer);
std::vector<IpsecPolicy> policies_in(netlink::Bytes answer);
// Nothing where some message is malformed: no network may be left out.
std::optional<std::vector<Cidr>> allowed_ips_in(netlink::Bytes answer);

// Of the network namespace of the calling thread. Needs CAP_NET_ADMIN there. A kernel without IPsec
// has no policies. Some dumps; never waits for anything but the kernel. Errors: those of the dumps
// of links, addresses and routes.
Result<PathFacts> read_path_facts();

}  // namespace fairlead::cni
