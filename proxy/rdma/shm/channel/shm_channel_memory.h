// What is in the memory of a channel; docs/shm.md has the offsets.
#pragma once

#include <cstdint>

#include "rdma/shm/channel/shm_control.h"
#include "rdma/shm/memory/shm_ring.h"

namespace fairlead::rdma::shm {

// What a side asks to be woken for while it sleeps; bits of SideMemory::sleeping.
inline constexpr std::uint64_t kWakeOnMessage = 1;
inline constexpr std::uint64_t kWakeOnProgress = 2;  // we consumed what it sent

struct SideMemory {
  // Set by the side itself, swapped for 0 by the one that rings.
  alignas(64) SharedWord sleeping;
};

struct ChannelMemory {
  SideMemory sides[2];
  ControlRingMemory controls[2];  // controls[s] is filled by side s
  RingMemory rings[2];            // rings[s] is filled by side s
};
static_assert(sizeof(ChannelMemory) == 164480, "docs/shm.md has the offsets");

}  // namespace fairlead::rdma::shm
