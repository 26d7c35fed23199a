// Plan of everything that ADD does to a pod, complete before the first change. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/hand_over.h"
#include "bpf/redirect_programs.h"
#include "cni/plugin/node_config.h"
#include "cni/plugin/request.h"
#include "cni/plugin/wishes.h"

namespace fairlead::cni {

// An RDMA port of the node.
struct RnicPort {
  RnicPortName name;
  std::string interface;  // of its GIDs, may be empty
  std::string mac;        // of that interface, twelve hexadecimal digits, or empty
  std::vector<Gid> gids;  // the node's own RoCEv2 addresses on that interface, the best first
};

// In the note of a pod whose namespace may not use the PNET.
inline constexpr std::string_view kPnetNamespaceAccess = "pnet_namespace";

struct PnetChoice {
  HandOver note;
  // "annotation", "configuration", "rnic" (named after its MAC) or "none".
  std::string source = "none";
  std::string hint;  // why there is none, or not what was asked for
  // The pod's namespace is the reason.
  bool not_for_namespace = false;
};

// Addresses of one pod that are looked at.
inline constexpr std::size_t kPodAddressesMax = 16;

// Addresses of the pod, from the result of the previous plugins. Others than the first
// kPodAddressesMax, and those that are none, are ignored.
std::vector<SocketAddress> addresses_of(const Json& previous_result);

bpf::RedirectRules redirect_rules(const NodeConfig& config, const Wishes& wishes,
                                  std::vector<SocketAddress> addresses);

// The name of a PNET is local: it selects the RNICs of a pod, and peers never compare it. So any
// stable name serves; a configured one is preferred. `pod_namespace` is empty if it is unknown.
PnetChoice choose_pnet(const NodeConfig& config, const Wishes& wishes,
                       std::string_view pod_namespace, const std::vector<RnicPort>& present);

}  // namespace fairlead::cni
