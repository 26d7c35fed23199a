#include "rdma/verbs/routes.h"

#include <ifaddrs.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/linux/handle.h"
#include "rdma/verbs/gid_select.h"

namespace fairlead::rdma::verbs {
namespace {

constexpr unsigned kMappedBits = 96;
constexpr unsigned kGidBits = 128;

unsigned prefix_bits(const sockaddr* mask, unsigned extra) {
  const Result<SocketAddress> bytes =
      SocketAddress::from(mask, mask->sa_family == AF_INET ? socklen_t{sizeof(sockaddr_in)}
                                                           : socklen_t{sizeof(sockaddr_in6)});
  unsigned bits = extra;
  if (bytes)
    for (const std::uint8_t byte : bytes->bytes())
      bits += static_cast<unsigned>(std::popcount(byte));
  return bits;
}

using Message = Handle<nl_msg, nlmsg_free>;
using Socket = Handle<nl_sock, nl_socket_free>;
using Vlans = std::map<unsigned, unsigned>;  // by index of the interface

nlattr* nested(nlattr* attribute) { return static_cast<nlattr*>(nla_data(attribute)); }

int take_vlan(nl_msg* message, void* into) noexcept {
  nlmsghdr* header = nlmsg_hdr(message);
  if (header->nlmsg_type != RTM_NEWLINK) return NL_OK;
  nlattr* about = nlmsg_find_attr(header, sizeof(ifinfomsg), IFLA_LINKINFO);
  nlattr* kind =
      about == nullptr ? nullptr : nla_find(nested(about), nla_len(about), IFLA_INFO_KIND);
  nlattr* data =
      about == nullptr ? nullptr : nla_find(nested(about), nla_len(about), IFLA_INFO_DATA);
  if (kind == nullptr || data == nullptr || nla_strcmp(kind, "vlan") != 0) return NL_OK;
  nlattr* id = nla_find(nested(data), nla_len(data), IFLA_VLAN_ID);
  const auto* link = static_cast<const ifinfomsg*>(nlmsg_data(header));
  if (id != nullptr && nla_len(id) >= int{sizeof(std::uint16_t)})
    (*static_cast<Vlans*>(into))[static_cast<unsigned>(link->ifi_index)] = nla_get_u16(id);
  return NL_OK;
}

// Empty where the kernel does not answer. An ioctl(2) would make it load the module for VLANs.
Vlans read_vlans() {
  Vlans vlans;
  const Socket socket(nl_socket_alloc());
  if (socket == nullptr || nl_connect(socket.get(), NETLINK_ROUTE) < 0) return vlans;
  nl_socket_modify_cb(socket.get(), NL_CB_VALID, NL_CB_CUSTOM, take_vlan, &vlans);
  ifinfomsg any{};
  if (nl_send_simple(socket.get(), RTM_GETLINK, NLM_F_DUMP, &any, sizeof any) >= 0)
    (void)nl_recvmsgs_default(socket.get());
  return vlans;
}

// The address as its own family has it.
std::span<const std::uint8_t> native(const Gid& gid) {
  const std::span<const std::uint8_t> all(gid.bytes);
  return gid.is_ipv4_mapped() ? all.subspan(kMappedBits / 8) : all;
}

int take_route(nl_msg* message, void* into) noexcept {
  nlmsghdr* header = nlmsg_hdr(message);
  if (header->nlmsg_type != RTM_NEWROUTE) return NL_OK;
  const auto* fixed = static_cast<const rtmsg*>(nlmsg_data(header));
  if (fixed->rtm_type != RTN_UNICAST && fixed->rtm_type != RTN_LOCAL) return NL_OK;
  Route route;
  if (nlattr* out = nlmsg_find_attr(header, sizeof(rtmsg), RTA_OIF))
    route.interface_index = nla_get_u32(out);
  route.gateway = nlmsg_find_attr(header, sizeof(rtmsg), RTA_GATEWAY) != nullptr ||
                  nlmsg_find_attr(header, sizeof(rtmsg), RTA_VIA) != nullptr;
  *static_cast<std::optional<Route>*>(into) = route;
  return NL_OK;
}

}  // namespace

Gid gid_from(const SocketAddress& address) {
  Gid gid;
  const std::span<const std::uint8_t> bytes = address.bytes();
  std::copy(bytes.rbegin(), bytes.rend(), gid.bytes.rbegin());
  if (address.is_v4()) gid.bytes[10] = gid.bytes[11] = 0xff;
  return gid;
}

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const Handle<ifaddrs, ::freeifaddrs> list(first);
  const Vlans vlans = read_vlans();
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_netmask == nullptr) continue;
    const bool v4 = entry->ifa_addr->sa_family == AF_INET;
    const Result<SocketAddress> address = SocketAddress::from(
        entry->ifa_addr, v4 ? socklen_t{sizeof(sockaddr_in)} : socklen_t{sizeof(sockaddr_in6)});
    if (!address) continue;
    const unsigned index = ::if_nametoindex(entry->ifa_name);
    const auto vlan = vlans.find(index);
    found.push_back({index, entry->ifa_name, gid_from(*address),
                     prefix_bits(entry->ifa_netmask, v4 ? kMappedBits : 0),
                     vlan == vlans.end() ? 0 : vlan->second});
  }
  return found;
}

std::string default_route_interface(std::span<const InterfaceAddress> addresses) {
  // proc(5): a heading, then lines of interface, destination, gateway, flags, reference count, use,
  // metric, mask; addresses in hexadecimal.
  constexpr std::string_view kAny = "00000000";
  std::ifstream routes("/proc/net/route");
  std::string line;
  std::getline(routes, line);
  while (std::getline(routes, line)) {
    std::istringstream words(line);
    std::string interface_name, destination, unused, mask;
    words >> interface_name >> destination;
    for (int i = 0; i < 5; ++i) words >> unused;
    // 0.0.0.0/1 begins with the same address.
    if (words >> mask && destination == kAny && mask == kAny) return interface_name;
  }
  std::set<std::string> names;
  for (const InterfaceAddress& entry : addresses) {
    const GidEntry as_gid{entry.address, GidType::kRoceV2, 0, 0};
    if (gid_rank(as_gid) && !is_link_local(entry.address)) names.insert(entry.interface_name);
  }
  return names.size() == 1 ? *names.begin() : "";
}

bool same_prefix(const Gid& a, const Gid& b, unsigned prefix_length) {
  const unsigned bits = std::min(prefix_length, kGidBits);
  const unsigned whole = bits / 8;
  if (!std::equal(a.bytes.begin(), a.bytes.begin() + whole, b.bytes.begin())) return false;
  if (bits % 8 == 0) return true;
  const unsigned mask = 0xff00U >> bits % 8 & 0xffU;
  return ((a.bytes[whole] ^ b.bytes[whole]) & mask) == 0;
}

const InterfaceAddress* holder_of(std::span<const InterfaceAddress> addresses, const Gid& gid) {
  const auto found = std::find_if(addresses.begin(), addresses.end(),
                                  [&](const auto& entry) { return entry.address == gid; });
  return found == addresses.end() ? nullptr : &*found;
}

bool subnet_covers(std::span<const InterfaceAddress> addresses, const Gid& gid, const Gid& other) {
  const InterfaceAddress* holder = holder_of(addresses, gid);
  if (holder == nullptr) return false;
  return std::any_of(addresses.begin(), addresses.end(), [&](const InterfaceAddress& entry) {
    return entry.interface_index == holder->interface_index &&
           same_prefix(entry.address, other, entry.prefix_length);
  });
}

void RouteTable::Close::operator()(nl_sock* socket) const noexcept { nl_socket_free(socket); }

RouteTable::RouteTable(std::unique_ptr<nl_sock, Close> socket) : socket_(std::move(socket)) {}
RouteTable::RouteTable(RouteTable&&) noexcept = default;
RouteTable::~RouteTable() = default;

Result<RouteTable> RouteTable::open() {
  std::unique_ptr<nl_sock, Close> socket(nl_socket_alloc());
  if (socket == nullptr) return Error{Errc::kExhausted, "netlink socket"};
  nl_socket_disable_auto_ack(socket.get());
  if (nl_connect(socket.get(), NETLINK_ROUTE) < 0)
    return Error{Errc::kSystem, "connecting to rtnetlink"};
  return RouteTable(std::move(socket));
}

std::optional<Route> RouteTable::look_up(const Gid& to, const Gid& from) const {
  const Message message(nlmsg_alloc_simple(RTM_GETROUTE, NLM_F_REQUEST));
  if (message == nullptr) return std::nullopt;
  rtmsg fixed{};
  fixed.rtm_family = to.is_ipv4_mapped() ? AF_INET : AF_INET6;
  const std::span<const std::uint8_t> target = native(to);
  const std::span<const std::uint8_t> source = native(from);
  if (target.size() != source.size()) return std::nullopt;
  fixed.rtm_dst_len = fixed.rtm_src_len = static_cast<unsigned char>(8 * target.size());
  const int size = static_cast<int>(target.size());
  if (nlmsg_append(message.get(), &fixed, sizeof fixed, NLMSG_ALIGNTO) < 0 ||
      nla_put(message.get(), RTA_DST, size, target.data()) < 0 ||
      nla_put(message.get(), RTA_SRC, size, source.data()) < 0 ||
      nl_send_auto(socket_.get(), message.get()) < 0)
    return std::nullopt;
  std::optional<Route> route;
  nl_socket_modify_cb(socket_.get(), NL_CB_VALID, NL_CB_CUSTOM, take_route, &route);
  // An error message is the answer when there is no route.
  if (nl_recvmsgs_default(socket_.get()) < 0) return std::nullopt;
  return route;
}

}  // namespace fairlead::rdma::verbs
