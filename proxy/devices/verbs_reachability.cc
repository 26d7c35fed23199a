#include "devices/verbs_reachability.h"

#include <algorithm>

#include "rdma/shm/shm_gid.h"
#include "rdma/verbs/gid_fitness.h"

namespace fairlead {

using namespace rdma::verbs;

VerbsReachability::VerbsReachability(const VerbsDevice& device, const NetworkView& view,
                                     std::string configured_pnet, bool trusted)
    : device_(device),
      view_(view),
      configured_pnet_(std::move(configured_pnet)),
      trusted_(trusted) {
  if (Result<RouteTable> routes = RouteTable::open()) routes_.emplace(std::move(*routes));
}

std::optional<Gid> VerbsReachability::client_gid(const wire::Proposal& proposal,
                                                 std::uint8_t version) const {
  const Gid gid = version == 1 ? proposal.v1_gid : proposal.v2->gid;
  return server_reachable(gid) ? std::optional(gid) : std::nullopt;
}

std::optional<rdma::Port> VerbsReachability::roce_v1_port(const rdma::Port& port,
                                                          const relay::Place& place) const {
  const std::span<const GidEntry> gids = device_.gids(port.number);
  const bool has_one = std::any_of(gids.begin(), gids.end(), [](const GidEntry& entry) {
    return entry.type == GidType::kRoceV1;
  });
  // For version 1, RoCEv1 comes before all else.
  return has_one ? choose_port({&port, 1}, place) : std::nullopt;
}

// Whether a local port fits is the task of choose_port().
bool VerbsReachability::server_reachable(const Gid& gid) const {
  return !gid.is_zero() && !rdma::shm::parse_gid(gid);
}

std::optional<rdma::Port> VerbsReachability::choose_port(std::span<const rdma::Port> ports,
                                                         const relay::Place& place) const {
  if (withheld(place)) return std::nullopt;
  const GidQuestion question{gid_from(place.local().unmapped()), gid_from(place.peer().unmapped()),
                             place.peer_gid};
  GidSurroundings surroundings{view_.addresses, view_.handed.gids, {}};
  if (routes_)
    surroundings.route = [this](const Gid& to, const Gid& from) {
      return routes_->look_up(to, from);
    };
  std::optional<rdma::Port> best;
  int best_fitness = 0;
  for (const rdma::Port& port : ports) {
    if (!relay::usable(port) || !ours(port)) continue;
    std::span<const GidEntry> gids = device_.gids(port.number);
    std::vector<GidEntry> of_version_1;
    if (place.version == 1) gids = of_version_1 = gids_of_version_1(gids, place.peer_gid);
    for (const GidEntry& gid : gids) {
      const std::optional<int> fitness = gid_fitness(gid, question, surroundings);
      if (!fitness || *fitness <= best_fitness) continue;
      best = port;
      best->gid = gid.gid;
      best_fitness = *fitness;
    }
  }
  return best;
}

bool VerbsReachability::withheld(const relay::Place& place) const {
  const EncryptedPaths& encrypted = view_.handed.encrypted;
  return !trusted_ && !encrypted.none() && encrypted.contains(place.peer());
}

std::optional<bool> VerbsReachability::direct(const Gid& local, const Gid& peer) const {
  // A GID of the node belongs to no interface of the pod, which has none of the node's routes.
  if (!routes_ || holder_of(view_.addresses, local) == nullptr) return std::nullopt;
  const std::optional<Route> route = routes_->look_up(peer, local);
  if (!route) return std::nullopt;
  return !route->gateway;
}

PnetAnswer VerbsReachability::answer_for(const rdma::Port& port) const {
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

relay::PnetOfPort VerbsReachability::pnet(const rdma::Port& port) const {
  PnetAnswer answer = answer_for(port);
  return {std::move(answer.id), std::move(answer.source)};
}

const char* VerbsReachability::gid_source(const rdma::Port& port) const {
  return port.gid.is_zero() ? "" : to_string(device_.gid_source(port.number));
}

}  // namespace fairlead
