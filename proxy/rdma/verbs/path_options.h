// How the queue pairs of a device send: quality of service and repetition.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace fairlead::rdma::verbs {

// Ranges are those of the configuration (config.h, Smc).
struct PathOptions {
  std::uint8_t traffic_class = 0;  // DSCP and ECN, as on the wire
  std::uint8_t service_level = 0;
  Mtu mtu_max = Mtu::k4096;  // the port's may be lower
  // A retry after 4.096 us * 2^16 = 268 ms, six of them: a peer that has gone is noticed after two
  // seconds. Soft-RoCE takes seven as unlimited.
  std::uint8_t ack_timeout = 16;
  std::uint8_t retry_count = 6;
  std::uint8_t rnr_retry = 7;  // unlimited
  friend bool operator==(const PathOptions&, const PathOptions&) = default;
};

// The smallest path MTU that carries `bytes`, one of 256 to 4096; of 0, the largest.
Mtu mtu_limit(unsigned bytes);

}  // namespace fairlead::rdma::verbs
