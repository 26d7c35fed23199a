// Stands before the limits of the device in the memory_order test: rings of few slots, and words
// and copies that are those of the explorer.
#pragma once

#include "explored_atomic.h"

#define kRingSlots kRingSlotsOfDevice
#define kControlSlots kControlSlotsOfDevice
#define kControlDrainMax kControlDrainMaxOfDevice
#include "proxy/rdma/shm/shm_limits.h"
#undef kRingSlots
#undef kControlSlots
#undef kControlDrainMax

namespace fairlead::rdma::shm {

inline constexpr std::uint64_t kRingSlots = 4;
inline constexpr std::uint64_t kControlSlots = 2;
inline constexpr int kControlDrainMax = kControlSlots;
inline constexpr std::size_t kMessageBytesMax = 112;  // two slots; hides that of rdma/device.h

}  // namespace fairlead::rdma::shm
