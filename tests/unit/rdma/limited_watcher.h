// A watcher that knows what it watches, and takes no more when the test says so.
#pragma once

#include <gtest/gtest.h>

#include <set>

#include "rdma/shm/connect/shm_connector.h"
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

// A listener that the connector leaves alone is watched by the next watcher, until that goes.
inline void expect_next_watcher_watches(Connector& connector, int listener) {
  LimitedWatcher next;
  ASSERT_TRUE(connector.set_watcher(&next));
  EXPECT_EQ(next.watched(), std::set<int>{listener});
  ASSERT_TRUE(connector.set_watcher(nullptr));
  EXPECT_EQ(next.watched(), std::set<int>{});
}

}  // namespace fairlead::rdma::shm
