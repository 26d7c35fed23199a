#include "relay/link_count.h"

#include <algorithm>
#include <memory>

#include "relay/worker.h"

namespace fairlead::relay {
namespace {

constexpr std::uint8_t kLinksUsual = 2;  // where ports allow it and smc.max_links is not set

// A group keeps its number of links for life, so a port that is down now counts too: it gives the
// group its second link when it comes up.
bool may_carry_links(const rdma::Port& port) {
  const bool down = port.state != rdma::PortState::kActive;
  return port.fault == rdma::PortFault::kNone && (down || !port.gid.is_zero());
}

}  // namespace

std::uint8_t links_from(Worker& worker, const DeviceSlot& slot, const rdma::Port& port) {
  const unsigned wanted = worker.config().smc.max_links;
  if (wanted != 0) return static_cast<std::uint8_t>(wanted);
  std::size_t ports = 0;
  for (const std::unique_ptr<DeviceSlot>& other : worker.slots())
    for (const rdma::Port& candidate : other->device().ports())
      if (may_carry_links(candidate) &&
          alike(slot.reachability(), port, other->reachability(), candidate))
        ++ports;
  return static_cast<std::uint8_t>(std::clamp<std::size_t>(ports, 1, kLinksUsual));
}

std::uint8_t links_offered(Worker& worker) {
  std::uint8_t links = 1;
  for (const std::unique_ptr<DeviceSlot>& slot : worker.slots())
    for (const rdma::Port& port : slot->device().ports())
      if (usable(port)) links = std::max(links, links_from(worker, *slot, port));
  return links;
}

}  // namespace fairlead::relay
