// Limits the number of concurrent handshakes with a peer. Linux performs its own one after the
// other and allows 6 s for each. Of many handshakes at once most would time out, while a queue is
// served.
//
// A session is identified by its number. It waits for, or holds, at most one permit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "base/address.h"

namespace fairlead::relay {

class HandshakeLimiter {
 public:
  // REQUIRES: per_peer_max != 0
  explicit HandshakeLimiter(std::size_t per_peer_max) : per_peer_max_(per_peer_max) {}

  // True: the session holds a permit. False: it waits in the queue of this address; the port is
  // ignored.
  bool take(const SocketAddress& peer, std::uint64_t session);
  // Returns the session that gets the permit, if one waits.
  std::optional<std::uint64_t> give_back(const SocketAddress& peer);
  // The session waits no longer.
  void leave(const SocketAddress& peer, std::uint64_t session);

  // Number of peers with handshakes under way or waiting.
  std::size_t peer_count() const { return peers_.size(); }

 private:
  struct Line {
    std::size_t in_hand = 0;
    std::deque<std::uint64_t> waiting;
  };
  std::size_t per_peer_max_;
  std::map<SocketAddress, Line> peers_;
};

}  // namespace fairlead::relay
