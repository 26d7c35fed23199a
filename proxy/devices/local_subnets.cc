#include "devices/local_subnets.h"

#include <algorithm>

#include "rdma/verbs/gid_select.h"

namespace fairlead {

using rdma::verbs::InterfaceAddress;

namespace {

constexpr unsigned kMappedBits = 96;

std::array<std::uint8_t, 16> network_of(const InterfaceAddress& entry) {
  std::array<std::uint8_t, 16> network = entry.address.bytes;
  for (unsigned bit = entry.prefix_length; bit < network.size() * 8; ++bit)
    network[bit / 8] &= static_cast<std::uint8_t>(~(0x80U >> bit % 8));
  return network;
}

void add_ipv6(wire::IpArea& area, const InterfaceAddress& entry) {
  const wire::Ipv6Prefix prefix{network_of(entry), static_cast<std::uint8_t>(entry.prefix_length)};
  const std::span<const wire::Ipv6Prefix> known = area.ipv6.view();
  const bool repeated = std::find(known.begin(), known.end(), prefix) != known.end();
  if (!repeated && area.ipv6.count < wire::kIpv6PrefixesMax) area.ipv6.push(prefix);
}

}  // namespace

std::optional<smc::Subnets> subnets_of(std::span<const InterfaceAddress> addresses,
                                       const SocketAddress& local) {
  const Gid wanted = rdma::verbs::gid_from(local);
  const auto holder =
      std::find_if(addresses.begin(), addresses.end(),
                   [&](const InterfaceAddress& entry) { return entry.address == wanted; });
  if (holder == addresses.end()) return std::nullopt;
  smc::Subnets subnets;
  subnets.vlan = static_cast<std::uint16_t>(holder->vlan);
  if (local.is_v4()) {
    if (holder->prefix_length < kMappedBits) return std::nullopt;
    const std::array<std::uint8_t, 16> network = network_of(*holder);
    std::copy(network.end() - 4, network.end(), subnets.area.ipv4_network.begin());
    subnets.area.ipv4_length_bits = static_cast<std::uint8_t>(holder->prefix_length - kMappedBits);
    return subnets;
  }
  // That of the connection first, because it must have room.
  if (!rdma::verbs::is_link_local(holder->address)) add_ipv6(subnets.area, *holder);
  for (const InterfaceAddress& entry : addresses)
    if (entry.interface_index == holder->interface_index && !entry.address.is_ipv4_mapped() &&
        !rdma::verbs::is_link_local(entry.address))
      add_ipv6(subnets.area, entry);
  return subnets;
}

std::optional<smc::Subnets> LocalSubnets::operator()(const SocketAddress& local) {
  const TimePoint now = std::chrono::steady_clock::now();
  if (read_at_ && now < *read_at_ + kInterfacesKept)
    if (const std::optional<smc::Subnets> known = subnets_of(addresses_, local)) return known;
  addresses_ = rdma::verbs::interface_addresses();
  read_at_ = now;
  return subnets_of(addresses_, local);
}

}  // namespace fairlead
