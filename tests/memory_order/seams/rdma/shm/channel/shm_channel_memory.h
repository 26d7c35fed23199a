// Stands for the header of this name in the memory_order test: the same layout, of a smaller size.
#pragma once

#include <cstdint>

#include "rdma/shm/channel/shm_control.h"
#include "rdma/shm/memory/shm_ring.h"

#define static_assert(...) static_assert(true)  // the size is that of full rings
#include "proxy/rdma/shm/channel/shm_channel_memory.h"
#undef static_assert
