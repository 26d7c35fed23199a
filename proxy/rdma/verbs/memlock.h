// What the process may still register. The kernel counts locked pages of the whole process against
// RLIMIT_MEMLOCK (ib_umem_get), so this account is one for all workers, and the only thing of the
// verbs device that threads share.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>

namespace fairlead::rdma::verbs {

class MemlockAccount {
 public:
  // 0 is no limit.
  explicit MemlockAccount(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}
  MemlockAccount(const MemlockAccount&) = delete;
  MemlockAccount& operator=(const MemlockAccount&) = delete;

  // False, and nothing taken, when less than that is left. Sizes count in whole pages.
  bool take(std::size_t size_bytes) noexcept;
  void give_back(std::size_t size_bytes) noexcept;

  std::size_t limit_bytes() const noexcept { return limit_bytes_.load(std::memory_order_relaxed); }
  // The node side raises the limit of a process that runs, when it gives it a device.
  void set_limit_bytes(std::size_t limit_bytes) noexcept {
    limit_bytes_.store(limit_bytes, std::memory_order_relaxed);
  }
  // What data buffers may take of it. A quarter stays for queue pairs, completion queues and their
  // messages: drivers lock memory for these beside this account, and without them buffers are of no
  // use.
  std::size_t left_for_data_bytes() const noexcept {
    const std::size_t limit = limit_bytes();
    if (limit == 0) return std::numeric_limits<std::size_t>::max();
    const std::size_t share = limit - limit / 4;
    return share - std::min(share, used_bytes());
  }
  std::size_t used_bytes() const noexcept { return used_bytes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> limit_bytes_;
  std::atomic<std::size_t> used_bytes_{0};
};

// A part of the account, given back with the object.
class MemlockShare {
 public:
  MemlockShare() = default;
  // Empty when the account has not enough left.
  MemlockShare(MemlockAccount& account, std::size_t size_bytes)
      : account_(account.take(size_bytes) ? &account : nullptr), size_bytes_(size_bytes) {}
  MemlockShare(MemlockShare&& other) noexcept
      : account_(other.account_), size_bytes_(other.size_bytes_) {
    other.account_ = nullptr;
  }
  MemlockShare& operator=(MemlockShare&&) = delete;
  ~MemlockShare() {
    if (account_ != nullptr) account_->give_back(size_bytes_);
  }
  explicit operator bool() const { return account_ != nullptr; }

 private:
  MemlockAccount* account_ = nullptr;
  std::size_t size_bytes_ = 0;
};

// Of this process, 0 when there is none: RLIMIT_MEMLOCK, which CAP_IPC_LOCK lifts.
std::size_t memlock_limit_bytes();

}  // namespace fairlead::rdma::verbs
