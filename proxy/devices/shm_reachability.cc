#include "devices/shm_reachability.h"

namespace fairlead {
namespace {

// Locally administered, so no vendor has it.
constexpr std::array<std::uint8_t, 3> kOui = {0xfa, 0x1e, 0xad};
// Links of a group are added over other ports; the first contact is made over the first.
constexpr PortNumber kFirstPort{1};

}  // namespace

wire::VendorArea ShmReachability::vendor_area() const { return {kOui, device_.fabric().bytes}; }

// By the vendor area, which a Proposal of either version has. Version 1 tells ports apart; a client
// that also has an RNIC names that one's GID.
std::optional<Gid> ShmReachability::client_gid(const wire::Proposal& proposal,
                                               std::uint8_t version) const {
  const bool same_fabric = proposal.vendor == vendor_area();
  if (!same_fabric || proposal.peer_id.is_zero()) return std::nullopt;
  if (version == 1 && device_.reachable(proposal.v1_gid)) return proposal.v1_gid;
  const Gid gid = rdma::shm::gid_of(device_.fabric(), kFirstPort, proposal.peer_id);
  if (!device_.reachable(gid)) return std::nullopt;
  return gid;
}

bool ShmReachability::server_reachable(const Gid& gid) const { return device_.reachable(gid); }

}  // namespace fairlead
