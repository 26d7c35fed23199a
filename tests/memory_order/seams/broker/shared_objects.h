// Stands for the header of this name in the memory_order test: placed memory and numbers of bells
// instead of descriptors.
#pragma once

namespace fairlead::rdma::shm {
class Mapping;
}

namespace fairlead::broker {

struct ChannelEnd {
  struct Memory {
    const rdma::shm::Mapping* placed = nullptr;
    const rdma::shm::Mapping* get() const { return placed; }
    void close_here() {}
  };
  Memory memory;
  int ring = -1;
  int watch = -1;
};

}  // namespace fairlead::broker
