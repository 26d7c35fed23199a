// Finds the queue pairs of one device by number: 12 bits of index below 12 bits of generation, so
// that a late message for a destroyed queue pair does not reach its successor.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

class ShmQueuePair;

class QueuePairTable {
 public:
  // `random` spreads the first generations of two devices apart.
  explicit QueuePairTable(std::uint32_t random) : first_generation_(random) {}

  // Errors: kExhausted at kQueuePairsMax.
  Result<QpNumber> add(ShmQueuePair& queue_pair);
  void remove(QpNumber number);
  ShmQueuePair* find(QpNumber number) const;

  // `visit` may change the state of queue pairs, but neither add nor remove.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Entry& entry : entries_)
      if (entry.queue_pair != nullptr) visit(*entry.queue_pair);
  }

 private:
  struct Entry {
    ShmQueuePair* queue_pair = nullptr;
    std::uint32_t generation = 0;
  };
  static constexpr std::uint32_t kIndexBits = 12;
  static constexpr std::uint32_t kIndexMask = kQueuePairsMax - 1;
  static constexpr std::uint32_t kGenerationMask = 0xfff;
  static_assert(kQueuePairsMax == 1u << kIndexBits);

  std::uint32_t first_generation_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
};

}  // namespace fairlead::rdma::shm
