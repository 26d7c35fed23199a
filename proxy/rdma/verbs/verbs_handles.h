// Every object of libibverbs that we make, owned from the moment it exists. ibv_*(3).
#pragma once

#include <infiniband/verbs.h>

#include "base/linux/handle.h"

namespace fairlead::rdma::verbs {

using ContextHandle = Handle<ibv_context, ibv_close_device>;
using DeviceListHandle = Handle<ibv_device*, ibv_free_device_list>;
using ChannelHandle = Handle<ibv_comp_channel, ibv_destroy_comp_channel>;
using CompletionQueueHandle = Handle<ibv_cq, ibv_destroy_cq>;
using DomainHandle = Handle<ibv_pd, ibv_dealloc_pd>;
using MemoryHandle = Handle<ibv_mr, ibv_dereg_mr>;
using ReceiveQueueHandle = Handle<ibv_srq, ibv_destroy_srq>;
using QueuePairHandle = Handle<ibv_qp, ibv_destroy_qp>;

}  // namespace fairlead::rdma::verbs
