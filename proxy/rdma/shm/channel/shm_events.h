// Asynchronous events of one device that wait for poll_async_event(). Bounded by what exists: one
// per port (the latest), one per queue pair, one for receive limits.
#pragma once

#include <deque>
#include <optional>

#include "rdma/device.h"

namespace fairlead::rdma::shm {

class AsyncEvents {
 public:
  void port_changed(PortNumber port, PortState state);
  void queue_pair_fatal(QpNumber queue_pair);
  void receive_limit();
  void forget(QpNumber queue_pair);  // it was destroyed
  std::optional<AsyncEvent> poll();
  bool empty() const { return waiting_.empty(); }

 private:
  std::deque<AsyncEvent> waiting_;
};

}  // namespace fairlead::rdma::shm
