// The ports of a device as they are now: state, MTU, GID table.
#pragma once

#include <vector>

#include "rdma/verbs/verbs_handles.h"
#include "rdma/verbs/verbs_queue_pair.h"

namespace fairlead::rdma::verbs {

inline constexpr std::size_t kGidsMax = 1024;  // looked at, of all ports

// Reads port `number` again, into `port`. A port without a usable GID has none (Port::gid is zero).
Result<void> read_port(ibv_context& context, std::uint8_t number, VerbsPort& port);

}  // namespace fairlead::rdma::verbs
