// Buffers of a device that were destroyed, and whose pages are given back to the system before the
// connector frees them. A peer with a descriptor can block that for as long as it likes, so a
// task thread does it.
#pragma once

#include <cstddef>
#include <vector>

#include "base/linux/task_thread.h"
#include "broker/message.h"
#include "rdma/shm/memory/shm_segment.h"

namespace fairlead::rdma::shm {

class Discards {
 public:
  Discards();

  // At kDiscardsWaitingMax the memory is unmapped here, and keeps its pages as long as a peer maps
  // it.
  void add(Mapping memory, const broker::BufferId& buffer);
  // Those that are done. When one takes longer than kDiscardWaitMax, all that wait behind it are
  // done as well, and unmapped as above.
  std::vector<broker::BufferId> take_done(TimePoint now);
  bool any() const { return count_ != 0; }

 private:
  std::size_t count_ = 0;  // added, and not taken
  std::vector<broker::BufferId> done_;
  TaskThread thread_;
};

}  // namespace fairlead::rdma::shm
