// A watcher that knows what it watches, and takes no more when the test says so.
#pragma once

#include <set>

#include "unit/rdma/set_of_descriptors.h"

namespace fairlead::rdma::shm {

class LimitedWatcher final : public FdWatcher {
 public:
  Result<void> watch_readable(int fd, Trigger trigger) override {
    if (full) return Error{Errc::kExhausted, "test"};
    return set_.watch_readable(fd, trigger);
  }
  void unwatch(int fd) override { set_.unwatch(fd); }
  const std::set<int>& watched() const { return set_.watched; }

  bool full = false;

 private:
  SetOfDescriptors set_;
};

}  // namespace fairlead::rdma::shm
