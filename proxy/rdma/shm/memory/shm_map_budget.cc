#include "rdma/shm/memory/shm_map_budget.h"

#include <atomic>
#include <memory>

#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {
namespace {

// Of all devices of the process, which belong to different threads.
std::atomic<std::size_t> process_mappings{0};

class Unmap final : public Task {
 public:
  explicit Unmap(Mapping mapping) : mapping_(std::move(mapping)) {}
  bool run() noexcept override { return false; }  // its destructor unmaps

 private:
  Mapping mapping_;
};

}  // namespace

CountedMapping& CountedMapping::operator=(CountedMapping&& other) noexcept {
  if (this != &other) {
    CountedMapping old(std::move(*this));
    mapping_ = std::move(other.mapping_);
    budget_ = std::exchange(other.budget_, nullptr);
    pod_ = other.pod_;
  }
  return *this;
}

CountedMapping::~CountedMapping() {
  if (budget_ == nullptr) return;
  budget_->give_back(pod_, mapping_.bytes().size());
  budget_->unmap(std::move(mapping_));
}

void CountedMapping::detach_from_file() noexcept {
  Mapping file = mapping_.detach_from_file();
  if (budget_ != nullptr) budget_->unmap(std::move(file));
}

// A peer with a channel can grant any number of buffers, even if we refuse its announcements. So
// mappings are limited for each pod, and the others have enough left.
Result<CountedMapping> MapBudget::map(int fd, std::uint32_t pod) {
  const auto known = shares_.find(pod);
  const Share own = pod == 0 || known == shares_.end() ? Share{} : known->second;
  if (count_ >= kMappingsPerDeviceMax) return Error{Errc::kExhausted, "mappings of the device"};
  if (own.count >= kMappingsPerPodMax) return Error{Errc::kExhausted, "mappings of one pod"};
  if (process_mappings.fetch_add(1, std::memory_order_relaxed) >= kMappingsPerProcessMax) {
    process_mappings.fetch_sub(1, std::memory_order_relaxed);
    return Error{Errc::kExhausted, "mappings of the process"};
  }
  auto mapping = adopt_whole_segment(fd);
  const std::size_t size = mapping ? mapping->bytes().size() : 0;
  const bool pod_full = own.bytes + size > kMappedBytesPerPodMax;
  if (!mapping || pod_full || bytes_ + size > kMappedBytesPerDeviceMax) {
    process_mappings.fetch_sub(1, std::memory_order_relaxed);
    if (!mapping) return mapping.error();
    return Error{Errc::kExhausted,
                 pod_full ? "mapped bytes of one pod" : "mapped bytes of the device"};
  }
  ++count_;
  bytes_ += size;
  if (pod != 0) shares_[pod] = {own.count + 1, own.bytes + size};
  return CountedMapping(std::move(*mapping), *this, pod);
}

void MapBudget::give_back(std::uint32_t pod, std::size_t size_bytes) {
  --count_;
  bytes_ -= size_bytes;
  process_mappings.fetch_sub(1, std::memory_order_relaxed);
  const auto own = shares_.find(pod);
  if (own == shares_.end()) return;
  own->second.bytes -= size_bytes;
  if (--own->second.count == 0) shares_.erase(own);
}

void MapBudget::unmap(Mapping mapping) {
  if (mapping.bytes().empty()) return;
  std::unique_ptr<Task> task = std::make_unique<Unmap>(std::move(mapping));
  unmaps_.post(task);
}

}  // namespace fairlead::rdma::shm
