#include "cni/rnics/path_facts.h"

#include <linux/genetlink.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/wireguard.h>
#include <linux/xfrm.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "cni/netlink/socket.h"

namespace fairlead::cni {
namespace {

using netlink::Attribute;
using netlink::Bytes;
using netlink::find;
using netlink::Message;

constexpr int kLoopbackIndex = 1;  // in every network namespace
constexpr std::array<std::string_view, 4> kEncryptingKinds = {"wireguard", "xfrm", "vti", "vti6"};
// Several thousand links, policies or routes. Reading them takes milliseconds.
constexpr std::size_t kNodeBytesMax = 4 << 20;
constexpr std::size_t kPodBytesMax = 256 << 10;

template <class T>
std::optional<T> value_of(Bytes bytes) {
  T value{};
  if (bytes.size() < sizeof value) return std::nullopt;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// A block of an address family; the address must have the size of the family.
std::optional<Cidr> block_of(unsigned family, Bytes address, unsigned prefix_length) {
  const std::size_t size = family == AF_INET    ? sizeof(in_addr)
                           : family == AF_INET6 ? sizeof(in6_addr)
                                                : 0;
  if (size == 0 || address.size() < size || prefix_length > 8 * size) return std::nullopt;
  std::array<std::uint8_t, 16> bytes{};
  std::memcpy(bytes.data(), address.data(), size);
  return Cidr::around(static_cast<sa_family_t>(family), bytes, prefix_length);
}

template <class Visit>
void for_each_message(Bytes answer, std::uint16_t type, Visit visit) {
  Message message;
  while (netlink::next(answer, message))
    if (message.header.nlmsg_type == type) visit(message);
}

// RTA_MULTIPATH: a fixed part with a length, attributes behind it, one after the other.
std::vector<std::uint32_t> next_hops(Bytes multipath) {
  std::vector<std::uint32_t> links;
  while (const auto hop = value_of<rtnexthop>(multipath)) {
    if (hop->rtnh_len < sizeof(rtnexthop) || hop->rtnh_len > multipath.size()) break;
    links.push_back(static_cast<std::uint32_t>(hop->rtnh_ifindex));
    multipath =
        multipath.subspan(std::min<std::size_t>(RTNH_ALIGN(hop->rtnh_len), multipath.size()));
  }
  return links;
}

std::optional<PathRoute> route_of(const Message& message) {
  const auto fixed = value_of<rtmsg>(message.body);
  if (!fixed || fixed->rtm_type != RTN_UNICAST || (fixed->rtm_flags & RTM_F_CLONED) != 0)
    return std::nullopt;
  const Bytes attributes = netlink::attributes_of(message, sizeof(rtmsg));
  const std::uint32_t table = netlink::u32_of(find(attributes, RTA_TABLE));
  if ((table != 0 ? table : fixed->rtm_table) == RT_TABLE_LOCAL) return std::nullopt;
  static constexpr std::array<std::byte, 16> kAny{};
  const Bytes destination = find(attributes, RTA_DST);
  const auto to = block_of(fixed->rtm_family, destination.empty() ? Bytes(kAny) : destination,
                           fixed->rtm_dst_len);
  if (!to) return std::nullopt;
  PathRoute route{*to, next_hops(find(attributes, RTA_MULTIPATH))};
  if (const std::uint32_t link = netlink::u32_of(find(attributes, RTA_OIF)); link != 0)
    route.links.push_back(link);
  // With net.ipv4.nexthop_compat_mode=0 the kernel reports only the number of a next-hop object.
  if (route.links.empty() && !find(attributes, RTA_NH_ID).empty()) route.links.push_back(kAnyLink);
  return route;
}

bool protects(Bytes templates) {
  for (; templates.size() >= sizeof(xfrm_user_tmpl);
       templates = templates.subspan(sizeof(xfrm_user_tmpl))) {
    const auto one = value_of<xfrm_user_tmpl>(templates);
    if (one->id.proto == IPPROTO_ESP || one->id.proto == IPPROTO_AH) return true;
  }
  return false;
}

void add_policy(const Message& message, std::vector<IpsecPolicy>& policies) {
  const auto fixed = value_of<xfrm_userpolicy_info>(message.body);
  if (!fixed || fixed->dir != XFRM_POLICY_OUT || fixed->action != XFRM_POLICY_ALLOW) return;
  const Bytes attributes = netlink::attributes_of(message, sizeof(xfrm_userpolicy_info));
  // A policy of an interface applies to packets that are routed there, independently of its
  // selector.
  if (!protects(find(attributes, XFRMA_TMPL)) ||
      netlink::u32_of(find(attributes, XFRMA_IF_ID)) != 0)
    return;
  const xfrm_selector& selector = fixed->sel;
  // A selector without a family is one of both.
  for (const unsigned family : {unsigned{AF_INET}, unsigned{AF_INET6}}) {
    if (selector.family != AF_UNSPEC && selector.family != family) continue;
    const auto from = block_of(family, netlink::bytes_of(selector.saddr), selector.prefixlen_s);
    const auto to = block_of(family, netlink::bytes_of(selector.daddr), selector.prefixlen_d);
    if (from && to)
      policies.push_back({*from, *to, selector.proto, netlink::network_order(selector.sport),
                          netlink::network_order(selector.dport)});
  }
}

template <class Family>
Result<std::vector<std::byte>> dump(int protocol, std::uint16_t type, const Family& family,
                                    std::size_t bytes_max) {
  netlink::Socket socket = SMC_TRY(netlink::Socket::open(protocol));
  netlink::Writer request;
  request.begin(type, NLM_F_DUMP, 1, family);
  // Valid for links only: counters would be most of their messages.
  if (type == RTM_GETLINK) request.u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
  request.end();
  return socket.query(request, bytes_max);
}

void read_policies(const PathLook& look, PathFacts& facts) {
  const Result<std::vector<std::byte>> answer =
      dump(NETLINK_XFRM, XFRM_MSG_GETPOLICY, xfrm_userpolicy_id{}, look.bytes_max);
  if (answer)
    facts.policies = policies_in(*answer);
  else if (answer.error().code == Errc::kUnsupported)
    facts.without_ipsec = true;
  else
    facts.incomplete = true;
}

// A table beyond the limit makes the facts incomplete; other errors go to the caller.
Result<PathFacts> incomplete_or(const Error& error) {
  if (error.code != Errc::kExhausted) return error;
  PathFacts facts;
  facts.incomplete = true;
  return facts;
}

Result<std::uint16_t> wireguard_family(netlink::Socket& socket) {
  netlink::Writer request;
  request.begin(GENL_ID_CTRL, 0, 1, genlmsghdr{CTRL_CMD_GETFAMILY, 1, 0});
  request.text(CTRL_ATTR_FAMILY_NAME, WG_GENL_NAME);
  request.end();
  const std::vector<std::byte> answer = SMC_TRY(socket.query(request));
  Bytes rest = answer;
  Message message;
  while (netlink::next(rest, message)) {
    const auto id = value_of<std::uint16_t>(
        find(netlink::attributes_of(message, sizeof(genlmsghdr)), CTRL_ATTR_FAMILY_ID));
    if (id) return *id;
  }
  return Error{Errc::kNotFound, "netlink family of WireGuard"};
}

Result<std::vector<Cidr>> read_allowed_ips(const std::string& link, std::size_t bytes_max) {
  netlink::Socket socket = SMC_TRY(netlink::Socket::open(NETLINK_GENERIC));
  const std::uint16_t family = SMC_TRY(wireguard_family(socket));
  netlink::Writer request;
  request.begin(family, NLM_F_DUMP, 2, genlmsghdr{WG_CMD_GET_DEVICE, WG_GENL_VERSION, 0});
  request.text(WGDEVICE_A_IFNAME, link);
  request.end();
  const std::vector<std::byte> answer = SMC_TRY(socket.query(request, bytes_max));
  auto blocks = allowed_ips_in(answer);
  if (!blocks) return Error{Errc::kMalformed, "AllowedIPs of WireGuard"};
  return std::move(*blocks);
}

}  // namespace

std::vector<PathLink> links_in(Bytes answer) {
  std::vector<PathLink> links;
  for_each_message(answer, RTM_NEWLINK, [&](const Message& message) {
    const auto fixed = value_of<ifinfomsg>(message.body);
    if (!fixed) return;
    const Bytes attributes = netlink::attributes_of(message, sizeof(ifinfomsg));
    links.push_back(
        {static_cast<std::uint32_t>(fixed->ifi_index),
         std::string(netlink::text_of(find(attributes, IFLA_IFNAME))),
         std::string(netlink::text_of(find(find(attributes, IFLA_LINKINFO), IFLA_INFO_KIND)))});
  });
  return links;
}

std::vector<SocketAddress> addresses_in(Bytes answer) {
  std::vector<SocketAddress> addresses;
  for_each_message(answer, RTM_NEWADDR, [&](const Message& message) {
    const auto fixed = value_of<ifaddrmsg>(message.body);
    if (!fixed || fixed->ifa_index == kLoopbackIndex) return;
    const Bytes attributes = netlink::attributes_of(message, sizeof(ifaddrmsg));
    // On a link from end to end IFA_ADDRESS is the other end's.
    const Bytes local = find(attributes, IFA_LOCAL);
    const Bytes address = local.empty() ? find(attributes, IFA_ADDRESS) : local;
    if (const auto v4 = value_of<in_addr>(address); v4 && fixed->ifa_family == AF_INET)
      addresses.emplace_back(*v4, std::uint16_t{0});
    if (const auto v6 = value_of<in6_addr>(address); v6 && fixed->ifa_family == AF_INET6)
      addresses.emplace_back(*v6, std::uint16_t{0});
  });
  return addresses;
}

std::vector<PathRoute> routes_in(Bytes answer) {
  std::vector<PathRoute> routes;
  for_each_message(answer, RTM_NEWROUTE, [&](const Message& message) {
    if (auto route = route_of(message)) routes.push_back(std::move(*route));
  });
  return routes;
}

std::vector<IpsecPolicy> policies_in(Bytes answer) {
  std::vector<IpsecPolicy> policies;
  for_each_message(answer, XFRM_MSG_NEWPOLICY,
                   [&](const Message& message) { add_policy(message, policies); });
  return policies;
}

std::optional<std::vector<Cidr>> allowed_ips_in(Bytes answer) {
  std::vector<Cidr> blocks;
  Message message;
  while (netlink::next(answer, message)) {
    Bytes peers = find(netlink::attributes_of(message, sizeof(genlmsghdr)), WGDEVICE_A_PEERS);
    Attribute peer, entry;
    while (netlink::next(peers, peer)) {
      Bytes entries = find(peer.value, WGPEER_A_ALLOWEDIPS);
      while (netlink::next(entries, entry)) {
        const auto family = value_of<std::uint16_t>(find(entry.value, WGALLOWEDIP_A_FAMILY));
        const auto prefix = value_of<std::uint8_t>(find(entry.value, WGALLOWEDIP_A_CIDR_MASK));
        const auto block = family && prefix
                               ? block_of(*family, find(entry.value, WGALLOWEDIP_A_IPADDR), *prefix)
                               : std::nullopt;
        if (!block) return std::nullopt;
        blocks.push_back(*block);
      }
    }
  }
  return blocks;
}

bool encrypts(const PathLink& link) {
  return std::find(kEncryptingKinds.begin(), kEncryptingKinds.end(), link.kind) !=
         kEncryptingKinds.end();
}

Result<PathFacts> read_path_facts(const PathLook& look) {
  PathFacts facts;
  const auto links = dump(NETLINK_ROUTE, RTM_GETLINK, ifinfomsg{}, look.bytes_max);
  if (!links) return incomplete_or(links.error());
  facts.links = links_in(*links);
  facts.without_ipsec = !look.ipsec;
  if (look.ipsec) read_policies(look, facts);
  if (look.addresses || !facts.policies.empty()) {
    const auto addresses = dump(NETLINK_ROUTE, RTM_GETADDR, ifaddrmsg{}, look.bytes_max);
    if (!addresses) return incomplete_or(addresses.error());
    facts.addresses = addresses_in(*addresses);
  }
  if (std::any_of(facts.links.begin(), facts.links.end(), encrypts)) {
    const auto routes = dump(NETLINK_ROUTE, RTM_GETROUTE, rtmsg{}, look.bytes_max);
    if (!routes) return incomplete_or(routes.error());
    facts.routes = routes_in(*routes);
  }
  for (const PathLink& link : facts.links) {
    const bool asked = std::find(kAllowedIpsLinks.begin(), kAllowedIpsLinks.end(), link.name) !=
                       kAllowedIpsLinks.end();
    if (!asked || link.kind != "wireguard") continue;
    const Result<std::vector<Cidr>> blocks = read_allowed_ips(link.name, look.bytes_max);
    if (blocks)
      facts.behind_wireguard.insert(facts.behind_wireguard.end(), blocks->begin(), blocks->end());
    else
      facts.incomplete = true;
  }
  return facts;
}

PathLook look_at_node() { return {.bytes_max = kNodeBytesMax, .ipsec = true, .addresses = false}; }

PathLook look_at_pod(const PathFacts& node) {
  return {
      .bytes_max = kPodBytesMax, .ipsec = !node.without_ipsec, .addresses = !node.policies.empty()};
}

}  // namespace fairlead::cni
