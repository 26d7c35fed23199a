// All that ADD will do to a pod, decided before any of it is done. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/hand_over.h"
#include "cni/node_config.h"
#include "cni/redirect_plan.h"
#include "cni/request.h"
#include "cni/wishes.h"

namespace fairlead::cni {

// An RDMA port of the node.
struct RnicPort {
  RnicPortName name;
  std::string interface;  // of its GIDs, may be empty
  std::string mac;        // of that interface, twelve hexadecimal digits, or empty
  std::vector<Gid> gids;  // the node's own RoCEv2 addresses on that interface, the best first
};

struct PnetChoice {
  HandOver note;
  // "annotation", "configuration", "rnic" (named after its MAC) or "none".
  std::string source = "none";
  std::string hint;  // why there is none, or not what was asked for
};

// The families that the pod has addresses of, by the result of the plugins before.
struct Families {
  bool ipv4 = false;
  bool ipv6 = false;
};
Families families_of(const Json& previous_result);

RedirectPlan redirect_plan(const NodeConfig& config, const Wishes& wishes, Families families);

// A PNET is named locally: it says which RNICs go with a pod, and peers never compare it. So any
// stable name will do, a configured one first.
PnetChoice choose_pnet(const NodeConfig& config, const Wishes& wishes,
                       const std::vector<RnicPort>& present);

}  // namespace fairlead::cni
