// The attributes of the steps that lead a queue pair to its peer. Pure.
#pragma once

#include <infiniband/verbs.h>

#include "rdma/device.h"
#include "rdma/verbs/gid_select.h"
#include "rdma/verbs/verbs_queue_pair.h"

namespace fairlead::rdma::verbs {

struct QpStep {
  ibv_qp_attr attributes{};
  int mask = 0;
};

// INIT → RTR. kUnsupported for an InfiniBand peer without a LID.
Result<QpStep> ready_to_receive_step(const VerbsPort& port, const GidEntry& source,
                                     const PeerEndpoint& peer);
// RTR → RTS.
QpStep ready_to_send_step(const PathOptions& path, PacketSeq first_psn);

}  // namespace fairlead::rdma::verbs
