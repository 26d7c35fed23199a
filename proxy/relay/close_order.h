// Which end of a connection closes the TCP connection between two proxies first.
//
// Who closes first keeps the connection in TIME_WAIT, and its address and port with it.
// Applications see that: a client whose servers close first can open connections without end. So
// the proxy whose application has ended first closes first, and the other one waits for its FIN.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "event/stream.h"

namespace fairlead::relay {

// A peer that has ended, and keeps its FIN back, is waited for so long.
inline constexpr Duration kFinWait = std::chrono::seconds(1);

class CloseOrder {
 public:
  // After each turn: whose data has ended. Where both end in one turn, the client was first.
  void note(bool own_ended, bool peer_ended, bool client) {
    if (first_ != First::kNobody || (!own_ended && !peer_ended)) return;
    const bool own = own_ended && (!peer_ended || client);
    first_ = own ? First::kOwn : First::kPeer;
  }

  // Both have ended. True when this side may close; else again at next_deadline(), or when
  // something has come from `net`.
  bool may_close(const event::Stream& net, TimePoint now) {
    if (first_ != First::kPeer || net.hung_up()) return true;
    if (!until_) until_ = now + kFinWait;
    return now >= *until_;
  }
  // May be called again until may_close() says so.
  bool closing() const { return until_.has_value(); }
  std::optional<TimePoint> next_deadline() const { return until_; }

 private:
  enum class First : std::uint8_t { kNobody, kOwn, kPeer };
  First first_ = First::kNobody;
  std::optional<TimePoint> until_;
};

}  // namespace fairlead::relay
