// The memory of one worker: its part of memory.limit, and the uses that hold it. Everything counts
// that the kernel may charge to the proxy's cgroup on behalf of connections, at its maximum: a
// connection that stalls later has been paid for from the beginning.
//
// Belongs to the worker's thread. Charges refer to the budget, which outlives them.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/stats.h"

namespace fairlead::relay {

// Rings leave at least 1/kRingsLeave of the limit. Connections without a ring are TCP, and need the
// rest for their sockets.
inline constexpr std::size_t kRingsLeave = 4;
// Whatever else is in use, rings do not take the last 1/kKeptFromRings of the limit.
inline constexpr std::size_t kKeptFromRings = 8;
// The error text of an allocation that the budget refuses. Fallback reasons depend on it.
inline constexpr const char* kBudgetSpent = "memory.limit";

class MemoryBudget {
 public:
  // `rings_max`: limit for rings; 0: the one that kRingsLeave determines. Counts in `stats`.
  MemoryBudget(std::size_t limit_bytes, std::size_t rings_max, WorkerStats& stats);
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  std::size_t limit_bytes() const { return limit_; }
  std::size_t left_bytes() const { return limit_ - used_; }
  std::size_t rings_limit_bytes() const { return rings_limit_; }
  // What is left for kRings and kPeerRings together.
  std::size_t rings_left_bytes() const;
  std::size_t used_bytes(MemoryUse use) const { return used_by_[static_cast<std::size_t>(use)]; }

  // False, and nothing is taken, if less than `keep_bytes` would remain, or if rings would exceed
  // their part.
  bool take(MemoryUse use, std::size_t bytes, std::size_t keep_bytes = 0);
  void give_back(MemoryUse use, std::size_t bytes);  // REQUIRES: taken for this use

 private:
  std::size_t limit_;
  std::size_t rings_limit_;
  WorkerStats& stats_;
  std::size_t used_ = 0;
  std::array<std::size_t, kMemoryUses> used_by_{};
};

// A part of the budget, given back when it goes out of scope.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  ~MemoryCharge() { resize_down(0); }
  MemoryCharge(MemoryCharge&& other) noexcept
      : budget_(other.budget_), use_(other.use_), bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryCharge& operator=(MemoryCharge&& other) noexcept;

  // Empty if the budget refuses.
  static std::optional<MemoryCharge> take(MemoryBudget& budget, MemoryUse use, std::size_t bytes,
                                          std::size_t keep_bytes = 0);
  std::size_t bytes() const { return bytes_; }
  // False if the budget refuses to give more; the charge is then unchanged.
  bool resize(std::size_t bytes, std::size_t keep_bytes = 0);

 private:
  MemoryCharge(MemoryBudget& budget, MemoryUse use, std::size_t bytes)
      : budget_(&budget), use_(use), bytes_(bytes) {}
  void resize_down(std::size_t bytes);

  MemoryBudget* budget_ = nullptr;
  MemoryUse use_ = MemoryUse::kRings;
  std::size_t bytes_ = 0;
};

}  // namespace fairlead::relay
