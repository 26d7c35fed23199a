// A FIFO of bounded capacity. Its memory doubles with the most that it has ever held, up to the
// capacity, and is nothing at first. Overflow is a bug of the caller, who must ask first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "base/assert.h"

namespace fairlead {

template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == capacity_; }
  std::size_t count() const { return count_; }
  std::size_t capacity() const { return capacity_; }
  std::size_t room() const { return capacity_ - count_; }
  std::size_t allocated_bytes() const { return allocated_ * sizeof(T); }

  // REQUIRES: !full()
  void push(T item) {
    SMC_ASSERT(!full(), capacity_);
    if (count_ == allocated_) grow();
    std::size_t at = first_ + count_;
    if (at >= allocated_) at -= allocated_;
    items_[at] = std::move(item);
    ++count_;
  }

  // REQUIRES: !empty()
  T& front() {
    SMC_ASSERT(!empty());
    return items_[first_];
  }
  T pop() {
    SMC_ASSERT(!empty());
    T item = std::move(items_[first_]);
    if (++first_ == allocated_) first_ = 0;
    --count_;
    return item;
  }
  void clear() {
    while (!empty()) (void)pop();
  }

 private:
  static constexpr std::size_t kFirst = 4;

  void grow() {
    const std::size_t size = std::min(capacity_, std::max(kFirst, 2 * allocated_));
    auto items = std::make_unique<T[]>(size);
    for (std::size_t i = 0; i < count_; ++i)
      items[i] = std::move(items_[(first_ + i) % allocated_]);
    items_ = std::move(items);
    allocated_ = size;
    first_ = 0;
  }

  std::unique_ptr<T[]> items_;
  std::size_t capacity_;
  std::size_t allocated_ = 0;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace fairlead
