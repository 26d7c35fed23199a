#include "rdma/shm/queue/shm_queue_pair_table.h"

#include "base/assert.h"

namespace fairlead::rdma::shm {

Result<QpNumber> QueuePairTable::add(ShmQueuePair& queue_pair) {
  std::uint32_t index = 0;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else if (entries_.size() < kQueuePairsMax) {
    index = static_cast<std::uint32_t>(entries_.size());
    entries_.push_back({nullptr, first_generation_ & kGenerationMask});
  } else {
    return Error{Errc::kExhausted, "queue pairs"};
  }
  Entry& entry = entries_[index];
  entry.queue_pair = &queue_pair;
  // Generation 0 is left out: small numbers are reserved in verbs.
  entry.generation = (entry.generation + 1) & kGenerationMask;
  if (entry.generation == 0) entry.generation = 1;
  return QpNumber(entry.generation << kIndexBits | index);
}

void QueuePairTable::remove(QpNumber number) {
  SMC_ASSERT(find(number) != nullptr, number.value);
  const std::uint32_t index = number.value & kIndexMask;
  entries_[index].queue_pair = nullptr;
  free_.push_back(index);
}

ShmQueuePair* QueuePairTable::find(QpNumber number) const {
  const std::uint32_t index = number.value & kIndexMask;
  if (index >= entries_.size() || entries_[index].generation != number.value >> kIndexBits)
    return nullptr;
  return entries_[index].queue_pair;
}

}  // namespace fairlead::rdma::shm
