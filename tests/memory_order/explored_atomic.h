// In namespace fairlead::rdma::shm, std::atomic and std::memcpy are those of the explorer. So the
// sources of the shared-memory device are compiled as they are, and each access of theirs to shared
// memory is a step of an exploration.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace explore {

std::uint64_t load_word(const void* word, std::memory_order order);
void store_word(void* word, std::uint64_t value, std::memory_order order);
std::uint64_t exchange_word(void* word, std::uint64_t value, std::memory_order order);
void copy_bytes(void* to, const void* from, std::size_t bytes);

template <class T>
class Atomic {
 public:
  static_assert(sizeof(T) == 8);
  static constexpr bool is_always_lock_free = true;
  T load(std::memory_order order = std::memory_order_seq_cst) const {
    return load_word(this, order);
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) {
    store_word(this, value, order);
  }
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst) {
    return exchange_word(this, value, order);
  }

 private:
  T value_;
};

}  // namespace explore

// clang-format off
namespace fairlead::rdma::shm::std { using namespace ::std; }  // all other names are as they are
// clang-format on

namespace fairlead::rdma::shm::std {

template <class T>
using atomic = explore::Atomic<T>;
inline void memcpy(void* to, const void* from, size_t bytes) {
  explore::copy_bytes(to, from, bytes);
}

}  // namespace fairlead::rdma::shm::std
