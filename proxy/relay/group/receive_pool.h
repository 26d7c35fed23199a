// Buffers that wait for messages in a receive queue, and that queue. If a queue serves queue pairs
// of any protection domain, all groups of a worker share one pool, so that N groups need no N sets
// of buffers. On other devices each group has a pool in its own domain, so that no peer's keys are
// useful to another peer. If a queue serves only one queue pair, each link has a pool.
//
// A pool begins with a few buffers: all are used in turn, and a pod may have a thousand peers that
// rarely speak. It doubles when more than half of its buffers were taken between two posts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "rdma/device.h"
#include "relay/pipes/memory_budget.h"

namespace fairlead::relay {

struct PoolSize {
  std::uint32_t entries = 0;  // maximum; each of rdma::kMessageBytesMax
  std::uint32_t limit = 0;    // the device reports when fewer of all entries are left
  std::uint32_t first = 0;    // initial entries
};
inline constexpr PoolSize kPoolOfWorker{512, 64, 64};
inline constexpr PoolSize kPoolOfGroup{128, 16, 8};
inline constexpr PoolSize kPoolOfLink = kPoolOfGroup;
// What a device must be able to register before it is used: a group's pool at full size.
inline constexpr PoolSize kPoolOnTrial{kPoolOfGroup.entries, kPoolOfGroup.limit,
                                       kPoolOfGroup.entries};
// The buffers of a worker's pool take at most 1/kPoolShare of its memory, but not fewer than
// kPoolEntriesMin entries.
inline constexpr std::size_t kPoolShare = 8;
inline constexpr std::uint32_t kPoolEntriesMin = 64;
PoolSize pool_of_worker(std::size_t memory_bytes);

class ReceivePool;

// The pools of one device; finds the pool of a completion. Outlives the pools.
class ReceivePools {
 public:
  ReceivePools() = default;
  ReceivePools(const ReceivePools&) = delete;
  ReceivePools& operator=(const ReceivePools&) = delete;

  // Null if the pool of that message has gone meanwhile.
  ReceivePool* pool_of(const rdma::Completion& received) const;
  // Posts the buffers that were taken back, so that they receive again.
  Result<void> post_again();
  // Some pool has reached its limit; the device does not tell which. Arms the limits of all again.
  void limit_reached();

 private:
  friend class ReceivePool;

  std::unordered_map<std::uint32_t, ReceivePool*> pools_;  // by number, the upper part of a WorkId
  std::vector<ReceivePool*> due_;                          // pools that have something to post
  std::uint32_t last_number_ = 0;
};

class ReceivePool {
 public:
  // Posts the first buffers. `device`, `domain` and `budget` outlive the pool, which outlives the
  // queue pairs on its queue. kMemoryLimit if `budget` has no room for the buffers.
  static Result<std::unique_ptr<ReceivePool>> create(ReceivePools& pools, rdma::Device& device,
                                                     rdma::ProtectionDomain& domain, PoolSize size,
                                                     MemoryBudget& budget);
  ~ReceivePool();
  ReceivePool(const ReceivePool&) = delete;
  ReceivePool& operator=(const ReceivePool&) = delete;

  rdma::SharedReceiveQueue& queue() { return *queue_; }
  std::uint32_t buffer_count() const { return buffer_count_; }
  // The received bytes; valid until take_back().
  std::span<const std::byte> message(const rdma::Completion& received) const;
  // Frees the message's buffer for ReceivePools::post_again().
  void take_back(const rdma::Completion& received);

 private:
  friend class ReceivePools;
  // Buffers that were registered together.
  struct Chunk {
    MemoryCharge charge;
    std::unique_ptr<rdma::RegisteredBuffer> memory;
    std::uint32_t first = 0;  // index of the first buffer
  };
  ReceivePool(ReceivePools& pools, rdma::Device& device, rdma::ProtectionDomain& domain,
              PoolSize size, MemoryBudget& budget);
  const Chunk& chunk_of(std::uint32_t index) const;
  rdma::ReceiveRequest request(std::uint32_t index) const;
  Result<void> grow(std::uint32_t count);
  void grow_if_crowded();
  Result<void> post();

  ReceivePools& pools_;
  rdma::Device& device_;
  rdma::ProtectionDomain& domain_;
  MemoryBudget& budget_;
  PoolSize size_;
  std::uint32_t number_ = 0;
  std::uint32_t buffer_count_ = 0;
  std::vector<Chunk> chunks_;
  std::unique_ptr<rdma::SharedReceiveQueue> queue_;
  std::vector<rdma::ReceiveRequest> reposts_;
  bool limit_reached_ = true;  // to be armed with the next post
};

}  // namespace fairlead::relay
