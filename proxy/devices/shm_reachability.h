// How a handshake leads to the shared-memory device: a Proposal names the client's fabric in its
// vendor area, an Accept names it in its GID (docs/wire.md, "Same node"). Peers that know nothing
// of this ignore the one and decline the other.
#pragma once

#include <optional>

#include "rdma/shm/shm_device.h"
#include "relay/group/device_slot.h"

namespace fairlead {

class ShmReachability final : public relay::Reachability {
 public:
  // The device outlives this object: both belong to one DeviceSlot.
  explicit ShmReachability(const rdma::shm::ShmDevice& device) : device_(device) {}

  const char* kind() const override { return "shm"; }
  wire::VendorArea vendor_area() const override;
  std::optional<Gid> client_gid(const wire::Proposal& proposal,
                                std::uint8_t version) const override;
  bool server_reachable(const Gid& gid) const override;
  bool alike(const rdma::Port&, const rdma::Port&) const override { return true; }

 private:
  const rdma::shm::ShmDevice& device_;
};

}  // namespace fairlead
