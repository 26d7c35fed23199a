// One device as link groups use it. The links of a group may be on any of the worker's devices that
// lead to the same peers. QP numbers are unique per device only, so lookups start from the device.
#pragma once

#include <unordered_map>

#include "base/ids.h"
#include "rdma/device.h"
#include "relay/group/reachability.h"
#include "relay/group/receive_pool.h"
#include "smc/group/rmb_keys.h"

namespace fairlead::relay {

class Group;

struct LinkPlace {
  Group* group = nullptr;
  smc::LinkIndex link = 0;
};

struct LinkDevice {
  rdma::Device* device = nullptr;
  const Reachability* reachability = nullptr;
  ReceivePools receives;
  ReceivePool* shared_pool = nullptr;  // of all groups, if its queue crosses protection domains
  std::unordered_map<QpNumber, LinkPlace> queue_pairs;  // of all groups, which maintain it
};

}  // namespace fairlead::relay
