// Bytes whose end is the end of readable memory, so that one byte read too far is a fault in every
// build, not only under a sanitizer.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/assert.h"

namespace fairlead::wire::test {

class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t capacity) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    readable_ = (capacity + page - 1) / page * page;
    mapped_ = readable_ + page;
    void* memory =
        ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SMC_ASSERT(memory != MAP_FAILED, mapped_);
    memory_ = static_cast<std::byte*>(memory);
    SMC_ASSERT(::mprotect(memory_ + readable_, page, PROT_NONE) == 0);
  }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  ~GuardedBytes() { ::munmap(memory_, mapped_); }

  // Valid until the next call.
  std::span<std::byte> hold(std::span<const std::byte> bytes) {
    SMC_ASSERT(bytes.size() <= readable_, bytes.size());
    std::byte* at = memory_ + (readable_ - bytes.size());
    std::copy(bytes.begin(), bytes.end(), at);
    return {at, bytes.size()};
  }

 private:
  std::byte* memory_ = nullptr;
  std::size_t readable_ = 0;
  std::size_t mapped_ = 0;
};

}  // namespace fairlead::wire::test
