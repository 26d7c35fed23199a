#include "relay/receive_pool.h"

#include <algorithm>

#include "base/assert.h"

namespace fairlead::relay {
namespace {

// A WorkId: 32 bits number of the pool, 16 bits index of the buffer. More a device does not keep.
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
  // One that fails keeps its buffers, and must not keep others from theirs.
  std::erase_if(due_, [&](ReceivePool* pool) {
    const Result<void> posted = pool->post();
    if (!posted) result = posted;
    return pool->reposts_.empty();
  });
  return result;
}

void ReceivePools::limit_reached() {
  for (const auto& [number, pool] : pools_) pool->limit_reached_ = true;
}

ReceivePool::ReceivePool(ReceivePools& pools, PoolSize size) : pools_(pools), size_(size) {
  SMC_ASSERT(size.entries <= 1U << kIndexBits, size.entries);
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
  const std::size_t bytes = std::size_t{size.entries} * rdma::kMessageBytesMax;
  std::optional<MemoryCharge> charge = MemoryCharge::take(budget, MemoryUse::kMessages, bytes);
  if (!charge) return Error{Errc::kExhausted, kBudgetSpent};
  std::unique_ptr<ReceivePool> pool(new ReceivePool(pools, size));
  pool->charge_ = std::move(*charge);
  pool->queue_ = SMC_TRY(device.create_shared_receive_queue(domain, size.entries));
  pool->memory_ = SMC_TRY(device.allocate_buffer(domain, bytes, rdma::BufferUse::kMessages));
  for (std::uint32_t i = 0; i < size.entries; ++i) pool->reposts_.push_back(pool->request(i));
  SMC_TRY(pool->post());
  return pool;
}

std::span<const std::byte> ReceivePool::message(const rdma::Completion& received) const {
  return memory_->bytes().subspan(request(index_of(received.id)).offset, received.length_bytes);
}

void ReceivePool::take_back(const rdma::Completion& received) {
  if (reposts_.empty()) pools_.due_.push_back(this);
  reposts_.push_back(request(index_of(received.id)));
}

rdma::ReceiveRequest ReceivePool::request(std::uint32_t index) const {
  return {rdma::WorkId{std::uint64_t{number_} << kIndexBits | index}, memory_.get(),
          std::size_t{index} * rdma::kMessageBytesMax, rdma::kMessageBytesMax};
}

Result<void> ReceivePool::post() {
  SMC_TRY(queue_->post(reposts_));
  reposts_.clear();
  if (!limit_reached_) return {};
  limit_reached_ = false;
  return queue_->arm_limit(size_.limit);
}

}  // namespace fairlead::relay
