// One device as link groups use it. A group has its links on any devices of its worker that lead to
// the same peers, so a queue pair is found by its device first: numbers are unique only there.
#pragma once

#include <unordered_map>

#include "base/ids.h"
#include "rdma/device.h"
#include "relay/group/reachability.h"
#include "relay/group/receive_pool.h"
#include "smc/rmb_keys.h"

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
  ReceivePool* shared_pool = nullptr;  // of all groups, where its queue crosses domains
  std::unordered_map<QpNumber, LinkPlace> queue_pairs;  // of all groups, kept by them
};

}  // namespace fairlead::relay
