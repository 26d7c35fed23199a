// A watcher that only knows what it watches, and takes no more when the test says so.
#pragma once

#include <gtest/gtest.h>

#include <set>

#include "base/linux/fd_watcher.h"

namespace fairlead::rdma::shm {

class SetOfDescriptors final : public FdWatcher {
 public:
  Result<void> watch_readable(int fd, Trigger) override {
    if (fd < 0) return Error{Errc::kWrongState, "test"};
    if (full) return Error{Errc::kExhausted, "test"};
    EXPECT_TRUE(watched.insert(fd).second) << fd;
    return {};
  }
  void unwatch(int fd) override {
    const bool known = watched.erase(fd) == 1;
    EXPECT_TRUE(known || may_be_unknown) << fd;
  }

  std::set<int> watched;
  bool full = false;
  bool may_be_unknown = false;  // to unwatch() what is not watched is no error
};

}  // namespace fairlead::rdma::shm
