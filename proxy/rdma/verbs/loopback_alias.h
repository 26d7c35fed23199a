// The alias of interface lo, in which a node hands its RNICs over (base/hand_over.h).
#pragma once

#include <string>

#include "base/result.h"

namespace fairlead::rdma::verbs {

// Of the network namespace of the calling thread; empty without one. Asks the kernel by rtnetlink.
Result<std::string> read_loopback_alias();

}  // namespace fairlead::rdma::verbs
