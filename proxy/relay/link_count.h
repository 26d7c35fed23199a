// How many links a link group of this worker may have. Reads the worker's devices; no state.
#pragma once

#include <cstdint>

#include "rdma/device.h"

namespace fairlead::relay {

class DeviceSlot;
class Worker;

// Of a group whose first link begins at that port: smc.max_links if it is set. Otherwise two if
// another port leads to the same peers, and one if none does. The other port may be down.
std::uint8_t links_from(Worker& worker, const DeviceSlot& slot, const rdma::Port& port);

// What a Proposal offers: the most of any port.
std::uint8_t links_offered(Worker& worker);

}  // namespace fairlead::relay
