// What the groups of a worker share, and the parameters of a new group.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/paced_lines.h"
#include "base/stats.h"
#include "event/timer_queue.h"
#include "rdma/device.h"
#include "relay/group/link_device.h"
#include "relay/group/reachability.h"
#include "relay/pipes/memory_budget.h"
#include "smc/group/link_group.h"
#include "wire/cdc.h"

namespace fairlead::relay {

class Group;

// The requests of one post(), all on one link. Transmissions are not split. Reused between posts.
struct SendBatch {
  static constexpr std::size_t kRequestsMax = 64;
  smc::LinkIndex link = 0;
  std::array<rdma::WorkRequest, kRequestsMax> requests{};
  std::array<std::array<std::byte, wire::kCdcBytes>, kRequestsMax> messages{};
  std::size_t count = 0;

  std::size_t room() const { return kRequestsMax - count; }
  rdma::WorkRequest& add() {
    rdma::WorkRequest& request = requests[count++];
    request = {};
    return request;
  }
  // The message bytes of the request that was added last.
  std::array<std::byte, wire::kCdcBytes>& message() { return messages[count - 1]; }
};

struct GroupResources {
  std::vector<LinkDevice*> devices;  // all, in order of preference
  MemoryBudget* budget = nullptr;
  event::TimerQueue* timers = nullptr;
  WorkerStats* stats = nullptr;
  smc::GroupTimes times;
  Duration slab_idle{};  // how long a slab without connections is kept
  const Clock* clock = nullptr;
  TimePoint now() const { return clock->now(); }
  std::vector<Group*> changed;      // groups whose protocol().output() may have events; may repeat
  PacedLines lines = PacedLines();  // log lines that peers can cause
  SendBatch batch;
};

struct GroupStart {
  std::string id;
  smc::GroupRole role = smc::GroupRole::kClient;
  PeerId peer;
  smc::Terms terms;
  LinkDevice* device = nullptr;  // of the first link
  rdma::Port port;               // likewise
  std::optional<Place> place;    // both ends of further links; set if there may be any
  unsigned links_max = 1;
  std::uint32_t random = 0;
};

inline constexpr std::uint32_t kSendRequestsPerLink = 256;

}  // namespace fairlead::relay
