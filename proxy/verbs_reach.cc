#include "verbs_reach.h"

#include "rdma/shm/shm_fabric.h"

namespace fairlead {

using namespace rdma::verbs;

namespace {

// Steps of fitness, each worth more than all below it together; rank of the GID's kind last.
constexpr int kSubnetOfConnection = 40;
constexpr int kRouteOfConnection = 20;
constexpr int kKindMax = 8;

bool same_family(const Gid& a, const Gid& b) {
  return a.is_ipv4_mapped() == b.is_ipv4_mapped() && is_link_local(a) == is_link_local(b);
}

}  // namespace

std::optional<int> gid_fitness(const GidEntry& gid, const relay::Place& place,
                               const NetworkView& view, const RouteTable* routes) {
  const std::optional<unsigned> rank = gid_rank(gid);
  if (!rank || (place.peer_gid && !same_family(gid.gid, *place.peer_gid))) return std::nullopt;
  int fitness = kKindMax - static_cast<int>(*rank);
  const InterfaceAddress* holder = holder_of(view.addresses, gid.gid);
  if (holder == nullptr) return fitness;
  if (subnet_covers(view.addresses, gid.gid, gid_from(place.local().unmapped())))
    fitness += kSubnetOfConnection;
  if (routes == nullptr) return fitness;
  const Gid target = place.peer_gid ? *place.peer_gid : gid_from(place.peer().unmapped());
  const std::optional<Route> route = routes->look_up(target, gid.gid);
  // Where the peer's own GID is known, one that cannot be routed to will not answer.
  if (!route && place.peer_gid && !is_link_local(*place.peer_gid)) return std::nullopt;
  if (route && route->interface_index == holder->interface_index) fitness += kRouteOfConnection;
  return fitness;
}

VerbsReach::VerbsReach(const VerbsDevice& device, const NetworkView& view,
                       std::string configured_pnet)
    : device_(device), view_(view), configured_pnet_(std::move(configured_pnet)) {
  if (Result<RouteTable> routes = RouteTable::open()) routes_.emplace(std::move(*routes));
}

std::optional<Gid> VerbsReach::client_gid(const wire::Proposal& proposal) const {
  if (!proposal.v2 || !server_reachable(proposal.v2->gid)) return std::nullopt;
  return proposal.v2->gid;
}

// Whether a port of ours fits is for choose_port() to say.
bool VerbsReach::server_reachable(const Gid& gid) const {
  return !gid.is_zero() && !rdma::shm::parse_gid(gid);
}

std::optional<rdma::Port> VerbsReach::choose_port(std::span<const rdma::Port> ports,
                                                  const relay::Place& place) const {
  std::optional<rdma::Port> best;
  int best_fitness = 0;
  for (const rdma::Port& port : ports) {
    if (!relay::usable(port) || !ours(port)) continue;
    for (const GidEntry& gid : device_.gids(port.number)) {
      const std::optional<int> fitness =
          gid_fitness(gid, place, view_, routes_ ? &*routes_ : nullptr);
      if (!fitness || *fitness <= best_fitness) continue;
      best = port;
      best->gid = gid.gid;
      best_fitness = *fitness;
    }
  }
  return best;
}

bool VerbsReach::direct(const Gid& local, const Gid& peer) const {
  // The routes of a node that cannot be seen: nodes of one cluster's fabric are neighbours as a
  // rule, and the kernel of the node finds the true way to a user's queue pair by itself.
  if (!routes_ || holder_of(view_.addresses, local) == nullptr) return true;
  const std::optional<Route> route = routes_->look_up(peer, local);
  return !route || !route->gateway;
}

PnetAnswer VerbsReach::answer_for(const rdma::Port& port) const {
  PnetQuestion question;
  question.configured = configured_pnet_;
  question.handed = view_.handed;
  question.rnic = device_.name();
  question.port = port.number;
  for (const GidEntry& gid : device_.gids(port.number))
    if (const InterfaceAddress* holder = holder_of(view_.addresses, gid.gid))
      question.rnic_interface = holder->interface_name;
  question.route_interface = view_.route_interface;
  return pnet_of(question, view_.pnet_table);
}

relay::PnetOfPort VerbsReach::pnet(const rdma::Port& port) const {
  PnetAnswer answer = answer_for(port);
  return {std::move(answer.id), std::move(answer.source)};
}

}  // namespace fairlead
