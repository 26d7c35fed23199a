// The subnets and the VLAN of the interface that has a local address, which version 1 of SMC-R
// compares: interfaces of this network namespace, as getifaddrs(3) and rtnetlink(7) tell them.
#pragma once

#include <optional>
#include <vector>

#include "base/address.h"
#include "base/time.h"
#include "rdma/verbs/routes.h"
#include "smc/clc/negotiate.h"

namespace fairlead {

// IPv4: the subnet of the address. IPv6: those of the interface, which reach beyond the own
// segment, as many as a Proposal has room for. Nothing if no interface has the address.
std::optional<smc::Subnets> subnets_of(std::span<const rdma::verbs::InterfaceAddress> addresses,
                                       const SocketAddress& local);

// For one worker; a copy has its own view. Reads the interfaces again when kInterfacesKept has
// passed, or when it does not know the address.
class LocalSubnets {
 public:
  static constexpr Duration kInterfacesKept = std::chrono::seconds(5);
  std::optional<smc::Subnets> operator()(const SocketAddress& local);

 private:
  std::vector<rdma::verbs::InterfaceAddress> addresses_;
  std::optional<TimePoint> read_at_;
};

}  // namespace fairlead
