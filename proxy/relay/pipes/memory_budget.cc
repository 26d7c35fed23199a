#include "relay/pipes/memory_budget.h"

#include <algorithm>

#include "base/assert.h"

namespace fairlead::relay {
namespace {

bool is_ring(MemoryUse use) { return use == MemoryUse::kRings || use == MemoryUse::kPeerRings; }

}  // namespace

MemoryBudget::MemoryBudget(std::size_t limit_bytes, std::size_t rings_max, WorkerStats& stats)
    : limit_(limit_bytes),
      rings_limit_(rings_max != 0 ? std::min(rings_max, limit_bytes)
                                  : limit_bytes - limit_bytes / kRingsLeave),
      stats_(stats) {
  stats_.memory_limit_bytes.set(limit_bytes);
  stats_.pinned_limit_bytes.set(rings_limit_);
}

std::size_t MemoryBudget::rings_left_bytes() const {
  const std::size_t rings = used_bytes(MemoryUse::kRings) + used_bytes(MemoryUse::kPeerRings);
  const std::size_t kept = limit_ / kKeptFromRings;
  return std::min(left_bytes() > kept ? left_bytes() - kept : 0, rings_limit_ - rings);
}

bool MemoryBudget::take(MemoryUse use, std::size_t bytes, std::size_t keep_bytes) {
  const std::size_t left = is_ring(use) ? rings_left_bytes() : left_bytes();
  if (bytes > left || keep_bytes > left_bytes() - bytes) return false;
  used_ += bytes;
  used_by_[static_cast<std::size_t>(use)] += bytes;
  stats_.memory_used[use].add(bytes);
  return true;
}

void MemoryBudget::give_back(MemoryUse use, std::size_t bytes) {
  SMC_ASSERT(bytes <= used_bytes(use), bytes, used_bytes(use));
  used_ -= bytes;
  used_by_[static_cast<std::size_t>(use)] -= bytes;
  stats_.memory_used[use].sub(bytes);
}

MemoryCharge& MemoryCharge::operator=(MemoryCharge&& other) noexcept {
  if (this == &other) return *this;
  resize_down(0);
  budget_ = other.budget_;
  use_ = other.use_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

std::optional<MemoryCharge> MemoryCharge::take(MemoryBudget& budget, MemoryUse use,
                                               std::size_t bytes, std::size_t keep_bytes) {
  if (!budget.take(use, bytes, keep_bytes)) return std::nullopt;
  return MemoryCharge(budget, use, bytes);
}

bool MemoryCharge::resize(std::size_t bytes, std::size_t keep_bytes) {
  if (bytes <= bytes_) {
    resize_down(bytes);
    return true;
  }
  if (budget_ == nullptr || !budget_->take(use_, bytes - bytes_, keep_bytes)) return false;
  bytes_ = bytes;
  return true;
}

void MemoryCharge::resize_down(std::size_t bytes) {
  if (budget_ != nullptr && bytes < bytes_) budget_->give_back(use_, bytes_ - bytes);
  bytes_ = std::min(bytes, bytes_);
}

}  // namespace fairlead::relay
