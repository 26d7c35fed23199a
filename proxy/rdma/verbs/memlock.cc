#include "rdma/verbs/memlock.h"

#include <linux/capability.h>
#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "base/assert.h"

namespace fairlead::rdma::verbs {
namespace {

constexpr std::size_t kPageBytes = 4096;  // what the limit is counted in on every machine we know

constexpr std::size_t in_pages(std::size_t size_bytes) {
  return (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

bool may_lock_without_limit() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "CapEff:") continue;
    std::uint64_t set = 0;
    status >> std::hex >> set;
    return (set >> CAP_IPC_LOCK & 1U) != 0;
  }
  return false;
}

}  // namespace

bool MemlockAccount::take(std::size_t size_bytes) noexcept {
  const std::size_t bytes = in_pages(size_bytes);
  const std::size_t limit = limit_bytes();
  std::size_t used = used_bytes_.load(std::memory_order_relaxed);
  do {
    if (limit != 0 && (bytes > limit || used > limit - bytes)) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

void MemlockAccount::give_back(std::size_t size_bytes) noexcept {
  const std::size_t before = used_bytes_.fetch_sub(in_pages(size_bytes), std::memory_order_relaxed);
  SMC_ASSERT(before >= in_pages(size_bytes), before, size_bytes);
}

std::size_t memlock_limit_bytes() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  if (may_lock_without_limit()) return 0;
  // 0 would mean "no limit" to the caller, so a limit of 0 bytes becomes 1.
  return limit.rlim_cur == 0 ? 1 : static_cast<std::size_t>(limit.rlim_cur);
}

}  // namespace fairlead::rdma::verbs
