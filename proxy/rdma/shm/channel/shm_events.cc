#include "rdma/shm/channel/shm_events.h"

#include <algorithm>

namespace fairlead::rdma::shm {

using Kind = AsyncEvent::Kind;

void AsyncEvents::port_changed(PortNumber port, PortState state) {
  std::erase_if(waiting_, [&](const AsyncEvent& event) {
    return event.port == port && (event.kind == Kind::kPortDown || event.kind == Kind::kPortUp);
  });
  waiting_.push_back(
      {.kind = state == PortState::kActive ? Kind::kPortUp : Kind::kPortDown, .port = port});
}

void AsyncEvents::queue_pair_fatal(QpNumber queue_pair) {
  waiting_.push_back({.kind = Kind::kQueuePairFatal, .queue_pair = queue_pair});
}

void AsyncEvents::receive_limit() {
  const bool known = std::any_of(waiting_.begin(), waiting_.end(), [](const AsyncEvent& event) {
    return event.kind == Kind::kReceiveLimit;
  });
  if (!known) waiting_.push_back({.kind = Kind::kReceiveLimit});
}

void AsyncEvents::forget(QpNumber queue_pair) {
  std::erase_if(waiting_, [&](const AsyncEvent& event) {
    return event.kind == Kind::kQueuePairFatal && event.queue_pair == queue_pair;
  });
}

std::optional<AsyncEvent> AsyncEvents::poll() {
  if (waiting_.empty()) return std::nullopt;
  AsyncEvent event = waiting_.front();
  waiting_.pop_front();
  return event;
}

}  // namespace fairlead::rdma::shm
