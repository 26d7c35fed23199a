// Finding out by trying what no attribute of a device tells.
#pragma once

#include "rdma/device.h"

struct ibv_context;

namespace fairlead::rdma::verbs {

// Whether a message arrives in the receive queue of another protection domain than its queue
// pair's: the specification allows it, Soft-RoCE does not do it. Sends one from an active port to
// itself; false also when that cannot be tried. Takes some milliseconds, half a second at most.
bool receive_queue_crosses_domains(Device& device, const Port& port);

// Whether the device makes a queue pair of type RC; none is left. Errors: those of judge_trial().
Result<void> try_reliable_connection(ibv_context& context);

}  // namespace fairlead::rdma::verbs
