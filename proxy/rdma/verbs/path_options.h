// How the queue pairs of a device send: quality of service and repetition.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/pod_settings.h"

namespace fairlead::rdma::verbs {

// Ranges are those of the configuration (config.h, Smc).
struct PathOptions {
  std::uint8_t traffic_class = usual_number("smc.traffic_class");  // DSCP and ECN, as on the wire
  std::uint8_t service_level = usual_number("smc.service_level");
  Mtu mtu_max = Mtu::k4096;  // the port's may be lower
  // A retry after 4.096 us * 2^16 = 268 ms, six of them: a peer that has gone is noticed after two
  // seconds. Soft-RoCE takes seven as unlimited.
  std::uint8_t ack_timeout = usual_number("smc.ack_timeout");
  std::uint8_t retry_count = usual_number("smc.retry_count");
  std::uint8_t rnr_retry = usual_number("smc.rnr_retry");  // unlimited
  friend bool operator==(const PathOptions&, const PathOptions&) = default;
};

// The smallest path MTU that carries `bytes`, one of 256 to 4096; of 0, the largest.
Mtu mtu_limit(unsigned bytes);

}  // namespace fairlead::rdma::verbs
