// A FIFO of fixed capacity, allocated once. Overflow is a bug of the caller, who must ask first.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/assert.h"

namespace fairlead {

template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity)
      : items_(std::make_unique<T[]>(capacity)), capacity_(capacity) {}

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == capacity_; }
  std::size_t count() const { return count_; }
  std::size_t capacity() const { return capacity_; }
  std::size_t room() const { return capacity_ - count_; }

  // REQUIRES: !full()
  void push(T item) {
    SMC_ASSERT(!full(), capacity_);
    std::size_t at = first_ + count_;
    if (at >= capacity_) at -= capacity_;
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
    if (++first_ == capacity_) first_ = 0;
    --count_;
    return item;
  }
  void clear() {
    while (!empty()) (void)pop();
  }

 private:
  std::unique_ptr<T[]> items_;
  std::size_t capacity_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace fairlead
