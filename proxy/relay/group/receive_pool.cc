#include "relay/group/receive_pool.h"

#include <algorithm>

#include "base/assert.h"

namespace fairlead::relay {
namespace {

// A WorkId: 32 bits of pool number, 16 bits of buffer index. A device keeps no more bits.
constexpr unsigned kIndexBits = 16;

std::uint32_t index_of(rdma::WorkId id) {
  return static_cast<std::uint32_t>(id) & ((1U << kIndexBits) - 1);
}

}  // namespace

PoolSize pool_of_worker(std::size_t memory_bytes) {
  const std::size_t affordable = memory_bytes / kPoolShare / rdma::kMessageBytesMax;
  PoolSize size = kPoolOfWorker;
  size.entries = static_cast<std::uint32_t>(
      std::clamp<std::size_t>(affordable, kPoolEntriesMin, kPoolOfWorker.entries));
  size.first = std::min(size.first, size.entries);
  size.limit = size.entries / (kPoolOfWorker.entries / kPoolOfWorker.limit);
  return size;
}

ReceivePool* ReceivePools::pool_of(const rdma::Completion& received) const {
  const auto found = pools_.find(
      static_cast<std::uint32_t>(static_cast<std::uint64_t>(received.id) >> kIndexBits));
  return found == pools_.end() ? nullptr : found->second;
}

Result<void> ReceivePools::post_again() {
  Result<void> result;
  // A pool that fails keeps its buffers, and must not prevent the others from posting.
  std::erase_if(due_, [&](ReceivePool* pool) {
    pool->grow_if_crowded();
    const Result<void> posted = pool->post();
    if (!posted) result = posted;
    return pool->reposts_.empty();
  });
  return result;
}

void ReceivePools::limit_reached() {
  for (const auto& [number, pool] : pools_) pool->limit_reached_ = true;
}

ReceivePool::ReceivePool(ReceivePools& pools, rdma::Device& device, rdma::ProtectionDomain& domain,
                         PoolSize size, MemoryBudget& budget)
    : pools_(pools), device_(device), domain_(domain), budget_(budget), size_(size) {
  SMC_ASSERT(size.first <= size.entries && size.entries <= 1U << kIndexBits, size.first,
             size.entries);
  do number_ = ++pools_.last_number_;
  while (pools_.pools_.contains(number_));
  pools_.pools_.emplace(number_, this);
}

ReceivePool::~ReceivePool() {
  pools_.pools_.erase(number_);
  std::erase(pools_.due_, this);
}

Result<std::unique_ptr<ReceivePool>> ReceivePool::create(ReceivePools& pools, rdma::Device& device,
                                                         rdma::ProtectionDomain& domain,
                                                         PoolSize size, MemoryBudget& budget) {
  std::unique_ptr<ReceivePool> pool(new ReceivePool(pools, device, domain, size, budget));
  pool->queue_ = SMC_TRY(device.create_shared_receive_queue(domain, size.entries));
  SMC_TRY(pool->grow(size.first));
  SMC_TRY(pool->post());
  return pool;
}

Result<void> ReceivePool::grow(std::uint32_t count) {
  const std::size_t bytes = std::size_t{count} * rdma::kMessageBytesMax;
  std::optional<MemoryCharge> charge = MemoryCharge::take(budget_, MemoryUse::kMessages, bytes);
  if (!charge) return Error{Errc::kMemoryLimit, kBudgetSpent};
  Chunk chunk;
  chunk.charge = std::move(*charge);
  chunk.memory = SMC_TRY(device_.allocate_buffer(domain_, bytes, rdma::BufferUse::kMessages));
  chunk.first = buffer_count_;
  chunks_.push_back(std::move(chunk));
  for (; count != 0; --count) reposts_.push_back(request(buffer_count_++));
  limit_reached_ = true;
  return {};
}

const ReceivePool::Chunk& ReceivePool::chunk_of(std::uint32_t index) const {
  const auto after =
      std::find_if(chunks_.begin(), chunks_.end(), [&](const Chunk& c) { return c.first > index; });
  return *std::prev(after);
}

std::span<const std::byte> ReceivePool::message(const rdma::Completion& received) const {
  const rdma::ReceiveRequest posted = request(index_of(received.id));
  return posted.buffer->bytes().subspan(posted.offset, received.length_bytes);
}

// Without memory for more buffers, the pool continues with those that it has.
void ReceivePool::grow_if_crowded() {
  if (reposts_.size() * 2 <= buffer_count_ || buffer_count_ == size_.entries) return;
  (void)grow(std::min(buffer_count_, size_.entries - buffer_count_));
}

void ReceivePool::take_back(const rdma::Completion& received) {
  if (reposts_.empty()) pools_.due_.push_back(this);
  reposts_.push_back(request(index_of(received.id)));
}

rdma::ReceiveRequest ReceivePool::request(std::uint32_t index) const {
  const Chunk& chunk = chunk_of(index);
  return {rdma::WorkId{std::uint64_t{number_} << kIndexBits | index}, chunk.memory.get(),
          std::size_t{index - chunk.first} * rdma::kMessageBytesMax, rdma::kMessageBytesMax};
}

Result<void> ReceivePool::post() {
  SMC_TRY(queue_->post(reposts_));
  reposts_.clear();
  if (!limit_reached_) return {};
  limit_reached_ = false;
  return queue_->arm_limit(std::max(1U, size_.limit * buffer_count_ / size_.entries));
}

}  // namespace fairlead::relay
