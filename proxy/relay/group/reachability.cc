#include "relay/group/reachability.h"

#include <algorithm>
#include <string_view>

namespace fairlead::relay {

bool usable(const rdma::Port& port) {
  return port.state == rdma::PortState::kActive && port.fault == rdma::PortFault::kNone &&
         !port.gid.is_zero();
}

std::optional<PortObstacle> obstacle(const rdma::Port& port) {
  using R = FallbackReason;
  // This fault persists whatever the link state is, so it comes first.
  if (port.fault == rdma::PortFault::kLinkLayer)
    return PortObstacle{R::kRnicUnsupported, "the port is neither Ethernet nor InfiniBand"};
  if (port.state != rdma::PortState::kActive)
    return PortObstacle{R::kPortDown, fallback_info(R::kPortDown).sentence};
  if (port.fault == rdma::PortFault::kGidsExcluded)
    return PortObstacle{R::kNoUsableGid,
                        "smc.gid_subnets, gid_index or gid_type exclude every GID of the port"};
  if (port.fault == rdma::PortFault::kNoPartition)
    return PortObstacle{R::kRnicUnsupported,
                        "the port is no member of the partition smc.partition_key"};
  if (port.fault == rdma::PortFault::kNoGid || port.gid.is_zero())
    return PortObstacle{R::kNoUsableGid,
                        "the port has no usable GID: its network interface has no address"};
  return std::nullopt;
}

SocketAddress Place::local() const {
  const Ends* kept = std::get_if<Ends>(&ends_);
  return kept ? kept->local : std::get<const event::Stream*>(ends_)->local_address();
}

SocketAddress Place::peer() const {
  const Ends* kept = std::get_if<Ends>(&ends_);
  return kept ? kept->peer : std::get<const event::Stream*>(ends_)->peer_address();
}

std::optional<rdma::Port> Reachability::choose_port(std::span<const rdma::Port> ports,
                                                    const Place&) const {
  const auto found = std::find_if(ports.begin(), ports.end(), usable);
  if (found == ports.end()) return std::nullopt;
  return *found;
}

std::optional<bool> Reachability::direct(const Gid&, const Gid&) const { return true; }

bool alike(const Reachability& one_device, const rdma::Port& one, const Reachability& other_device,
           const rdma::Port& other) {
  if (&one_device == &other_device) return one_device.alike(one, other);
  if (std::string_view(one_device.kind()) != other_device.kind()) return false;
  const std::string id = one_device.pnet(one).id;
  return !id.empty() && id == other_device.pnet(other).id;
}

bool Reachability::alike(const rdma::Port& one, const rdma::Port& other) const {
  if (one.number == other.number) return true;
  const std::string id = pnet(one).id;
  return !id.empty() && id == pnet(other).id;
}

}  // namespace fairlead::relay
