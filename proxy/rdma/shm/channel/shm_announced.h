// Own buffers that were granted and announced to one peer, until the peer takes the
// announcement. It does not take it without the memory, which the grant brings on another way, and
// which may be lost there.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/time.h"
#include "broker/message.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

class AnnouncedBuffers {
 public:
  // `place`: of the announcement among all control messages to the peer.
  void add(std::uint64_t place, const broker::BufferId& buffer, TimePoint now) {
    if (announced_.size() >= kControlSlots) announced_.pop_front();  // the peer has taken it
    announced_.push_back({place, buffer, now, now});
  }
  void clear() { announced_.clear(); }
  bool any() const { return !announced_.empty(); }

  // A buffer to grant again: its announcement is the next message that the peer takes,
  // and has waited for kGrantAgainAfter. `taken`: how many messages the peer has taken.
  std::optional<broker::BufferId> due(std::uint64_t taken, TimePoint now) {
    while (!announced_.empty() && (announced_.front().place < taken ||
                                   now - announced_.front().announced_at >= kGrantAgainMax))
      announced_.pop_front();
    if (announced_.empty()) return std::nullopt;
    Announced& next = announced_.front();
    if (next.place != taken || now - next.granted_at < kGrantAgainAfter) return std::nullopt;
    next.granted_at = now;
    return next.buffer;
  }

 private:
  struct Announced {
    std::uint64_t place;
    broker::BufferId buffer;
    TimePoint announced_at;
    TimePoint granted_at;
  };
  std::deque<Announced> announced_;  // not more than the control ring has slots
};

}  // namespace fairlead::rdma::shm
