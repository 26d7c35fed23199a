// How well a local GID fits a connection: the order in which GIDs are preferred, of all ports of
// all RNICs. Pure but for the routes that the caller looks up.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "rdma/verbs/gid_select.h"
#include "rdma/verbs/routes.h"

namespace fairlead::rdma::verbs {

struct GidQuestion {
  Gid local;                    // our address of the TCP connection
  Gid peer;                     // the peer's
  std::optional<Gid> peer_gid;  // when the peer has told it
};

struct GidSurroundings {
  std::span<const InterfaceAddress> addresses;  // of this network namespace
  std::span<const Gid> named;                   // the node's own, as it told us
  // How the kernel would send from `from` to `to`; empty where nobody can say.
  std::function<std::optional<Route>(const Gid& to, const Gid& from)> route;
};

// More is better. Nothing means unusable: another family than the peer's GID, no route to it, or a
// route over another VLAN. The order, best first: an address in the subnet of the connection; one
// whose interface has the route; any other address of this namespace; one that the node named;
// other GIDs, which may be another pod's.
std::optional<int> gid_fitness(const GidEntry& gid, const GidQuestion& question,
                               const GidSurroundings& surroundings);

}  // namespace fairlead::rdma::verbs
