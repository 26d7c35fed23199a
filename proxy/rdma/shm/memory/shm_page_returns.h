// Gives pages of peers' memory back to the system, on a thread of its own: a peer can block that
// for as long as it likes. Only what it blocks itself waits then; all else can be called off.
#pragma once

#include <memory>
#include <span>

#include "base/linux/task_thread.h"
#include "rdma/device.h"

namespace fairlead::rdma::shm {

class PageReturns {
 public:
  PageReturns();

  // Outlives what this returns. `view`: of shared memory that is mapped now; whole pages, or none
  // is returned. It may be unmapped meanwhile. Null at kPageReturnsMax, and for memory of another
  // kind.
  std::unique_ptr<PageReturn> add(std::span<std::byte> view);

 private:
  TaskThread thread_;
};

}  // namespace fairlead::rdma::shm
