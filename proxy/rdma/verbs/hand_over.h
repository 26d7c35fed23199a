// What the CNI plugin tells a sidecar of its node's RNICs: the alias of interface lo in the pod's
// network namespace, which can be read without mount and privilege (docs/cni.md, "What is done to a
// pod").
//
//   smc1;pnet=NETA;rnic=mlx5_0/1,mlx5_1/1;mode=shared;gid=auto
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace fairlead::rdma::verbs {

struct HandedRnic {
  std::string name;
  PortNumber port;
  friend bool operator==(const HandedRnic&, const HandedRnic&) = default;
};

struct HandOver {
  std::string pnet;               // empty: the node knows of none for this pod
  std::vector<HandedRnic> rnics;  // in that network; empty: whichever there are
  friend bool operator==(const HandOver&, const HandOver&) = default;
};

// Nothing for an alias that is somebody else's, of a version to come, or malformed. Keys that we do
// not know are passed over. Pure.
std::optional<HandOver> parse_hand_over(std::string_view alias);

// Of the network namespace of the calling thread; empty without one. Asks the kernel by rtnetlink.
Result<std::string> read_loopback_alias();

}  // namespace fairlead::rdma::verbs
