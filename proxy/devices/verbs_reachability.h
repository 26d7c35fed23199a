// How a handshake leads to an RNIC: by the GIDs that Proposal and Accept name, as SMC-R version 2
// has it (docs/wire.md, "Proposal" and "Verbs"). Where interfaces and routes of the RNIC can be
// seen they decide; a pod does not see those of its node, then the address of the GID alone does.
#pragma once

#include <string>
#include <vector>

#include "base/hand_over.h"
#include "rdma/verbs/pnet.h"
#include "rdma/verbs/routes.h"
#include "rdma/verbs/verbs_device.h"
#include "relay/group/device_slot.h"

namespace fairlead {

// What a look at the network namespace has found; the same for all RNICs of a worker.
struct NetworkView {
  std::vector<rdma::verbs::InterfaceAddress> addresses;
  std::vector<rdma::verbs::PnetEntry> pnet_table;
  std::string route_interface;  // that carries the default route
  HandOver handed;
};

class VerbsReachability final : public relay::Reachability {
 public:
  // The device outlives this object: both belong to one DeviceSlot. `view` outlives it.
  // `trusted`: paths that the node encrypts may be passed by.
  VerbsReachability(const rdma::verbs::VerbsDevice& device, const NetworkView& view,
                    std::string configured_pnet, bool trusted);

  const char* kind() const override { return "verbs"; }
  bool leaves_node() const override { return true; }
  wire::VendorArea vendor_area() const override { return {}; }
  std::optional<Gid> client_gid(const wire::Proposal& proposal,
                                std::uint8_t version) const override;
  std::optional<rdma::Port> roce_v1_port(const rdma::Port& port,
                                         const relay::Place& place) const override;
  bool server_reachable(const Gid& gid) const override;
  std::optional<rdma::Port> choose_port(std::span<const rdma::Port> ports,
                                        const relay::Place& place) const override;
  bool withheld(const relay::Place& place) const override;
  std::optional<bool> direct(const Gid& local, const Gid& peer) const override;
  relay::PnetOfPort pnet(const rdma::Port& port) const override;
  const char* gid_source(const rdma::Port& port) const override;
  bool in_network(const rdma::Port& port) const override { return ours(port); }

  // Whether pnet.id, the node's hand-over or the kernel's table gives the port to us.
  bool ours(const rdma::Port& port) const { return answer_for(port).ours; }

 private:
  rdma::verbs::PnetAnswer answer_for(const rdma::Port& port) const;

  const rdma::verbs::VerbsDevice& device_;
  const NetworkView& view_;
  std::string configured_pnet_;
  bool trusted_;
  std::optional<rdma::verbs::RouteTable> routes_;
};

}  // namespace fairlead
