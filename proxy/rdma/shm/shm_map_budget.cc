#include "rdma/shm/shm_map_budget.h"

#include <atomic>

#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

// Of all devices of the process, which belong to different threads.
std::atomic<std::size_t> process_mappings{0};

}  // namespace

CountedMapping& CountedMapping::operator=(CountedMapping&& other) noexcept {
  if (this != &other) {
    CountedMapping old(std::move(*this));
    mapping_ = std::move(other.mapping_);
    budget_ = std::exchange(other.budget_, nullptr);
  }
  return *this;
}

CountedMapping::~CountedMapping() {
  if (budget_ != nullptr) budget_->give_back(mapping_.bytes().size());
}

Result<CountedMapping> MapBudget::map(int fd) {
  if (count_ >= kMappingsPerDeviceMax) return Error{Errc::kExhausted, "mappings of the device"};
  if (process_mappings.fetch_add(1, std::memory_order_relaxed) >= kMappingsPerProcessMax) {
    process_mappings.fetch_sub(1, std::memory_order_relaxed);
    return Error{Errc::kExhausted, "mappings of the process"};
  }
  auto mapping = adopt_whole_segment(fd);
  if (!mapping || bytes_ + mapping->bytes().size() > kMappedBytesPerDeviceMax) {
    process_mappings.fetch_sub(1, std::memory_order_relaxed);
    if (!mapping) return mapping.error();
    return Error{Errc::kExhausted, "mapped bytes of the device"};
  }
  ++count_;
  bytes_ += mapping->bytes().size();
  return CountedMapping(std::move(*mapping), *this);
}

void MapBudget::give_back(std::size_t size_bytes) {
  --count_;
  bytes_ -= size_bytes;
  process_mappings.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace fairlead::rdma::shm
