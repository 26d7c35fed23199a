// A port or queue pair that can fail without effect on connections: every link group on it has
// another link that works at both ends.
#pragma once

#include <memory>
#include <span>

#include "sim/proxy.h"

namespace fairlead::sim {

struct Victim {
  Pod pod = 1;
  std::size_t device = 0;
  PortNumber port;      // 0: only the queue pair
  QpNumber queue_pair;  // 0: all of the port
};

bool can_spare(std::span<const std::unique_ptr<SimProxy>> proxies, const Fabric& fabric,
               const Victim& victim);

}  // namespace fairlead::sim
