// Stands for the header of this name in the memory_order test: memory that the explorer placed.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace fairlead::rdma::shm {

class Mapping {
 public:
  Mapping() = default;
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

inline Result<Mapping> adopt_segment(const Mapping* placed, std::size_t) { return *placed; }

}  // namespace fairlead::rdma::shm
