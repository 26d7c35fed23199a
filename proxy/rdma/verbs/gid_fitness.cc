#include "rdma/verbs/gid_fitness.h"

#include <algorithm>

namespace fairlead::rdma::verbs {
namespace {

// Steps of fitness, each worth more than all below it together; rank of the GID's kind last.
constexpr int kSubnetOfConnection = 80;
constexpr int kRouteOfConnection = 40;
constexpr int kOwnAddress = 20;
constexpr int kNamedByNode = 10;
constexpr int kKindMax = 8;

bool same_family(const Gid& a, const Gid& b) {
  return a.is_ipv4_mapped() == b.is_ipv4_mapped() && is_link_local(a) == is_link_local(b);
}

unsigned vlan_of(std::span<const InterfaceAddress> addresses, unsigned interface_index) {
  for (const InterfaceAddress& address : addresses)
    if (address.interface_index == interface_index) return address.vlan;
  return 0;
}

}  // namespace

std::optional<int> gid_fitness(const GidEntry& gid, const GidQuestion& question,
                               const GidSurroundings& surroundings) {
  const std::optional<unsigned> rank = gid_rank(gid);
  if (!rank || (question.peer_gid && !same_family(gid.gid, *question.peer_gid)))
    return std::nullopt;
  int fitness = kKindMax - static_cast<int>(*rank);
  if (std::find(surroundings.named.begin(), surroundings.named.end(), gid.gid) !=
      surroundings.named.end())
    fitness += kNamedByNode;
  const InterfaceAddress* holder = holder_of(surroundings.addresses, gid.gid);
  if (holder == nullptr) return fitness;
  if (!is_link_local(gid.gid)) fitness += kOwnAddress;
  if (subnet_covers(surroundings.addresses, gid.gid, question.local))
    fitness += kSubnetOfConnection;
  if (!surroundings.route) return fitness;
  const Gid target = question.peer_gid.value_or(question.peer);
  const std::optional<Route> route = surroundings.route(target, gid.gid);
  const bool known_target = question.peer_gid && !is_link_local(*question.peer_gid);
  // Where the peer's own GID is known, one that cannot be routed to will not answer.
  if (!route) return known_target ? std::nullopt : std::optional(fitness);
  // The RNIC tags packets with the VLAN of the GID's interface.
  if (known_target && vlan_of(surroundings.addresses, route->interface_index) != holder->vlan)
    return std::nullopt;
  if (route->interface_index == holder->interface_index) fitness += kRouteOfConnection;
  return fitness;
}

}  // namespace fairlead::rdma::verbs
