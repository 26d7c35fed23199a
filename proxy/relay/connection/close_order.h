// Decides which of two proxies is the first to close the TCP connection between them.
//
// The side that closes first keeps the connection in TIME_WAIT, and its address and port stay in
// use. Applications notice: a client does not run out of ports as long as its servers close first.
// So the proxy of the application that ended first closes first. The other proxy waits for its FIN.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "event/stream.h"

namespace fairlead::relay {

// The longest wait for the FIN of a peer that has ended.
inline constexpr Duration kFinWait = std::chrono::seconds(1);

class CloseOrder {
 public:
  // Called after each turn with the sides that have ended. If both ended in one turn, the client
  // counts as first.
  void note(bool own_ended, bool peer_ended, bool client) {
    if (first_ != First::kNobody || (!own_ended && !peer_ended)) return;
    const bool own = own_ended && (!peer_ended || client);
    first_ = own ? First::kOwn : First::kPeer;
  }

  // REQUIRES: both have ended. After false, call it again at next_deadline(), or after an event of
  // `net`.
  bool may_close(const event::Stream& net, TimePoint now) {
    if (first_ != First::kPeer || net.hung_up()) return true;
    if (!until_) until_ = now + kFinWait;
    return now >= *until_;
  }
  // True once may_close() has returned false.
  bool waiting() const { return until_.has_value(); }
  Deadline next_deadline() const { return until_; }

 private:
  enum class First : std::uint8_t { kNobody, kOwn, kPeer };
  First first_ = First::kNobody;
  std::optional<TimePoint> until_;
};

}  // namespace fairlead::relay
