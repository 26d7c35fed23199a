// How many handshakes a peer has in hand at a time. Linux makes its own one after the other and
// gives each 6 s: a crowd that knocks at once would see most of its number time out, where a line
// of them is served.
//
// A session has a number. It waits, or holds a permit, at most once.
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

  // True: it holds a permit. False: it waits, with others for this address; ports play no part.
  bool take(const SocketAddress& peer, std::uint64_t session);
  // The session that gets the permit, if one waits.
  std::optional<std::uint64_t> give_back(const SocketAddress& peer);
  // It waits no longer.
  void leave(const SocketAddress& peer, std::uint64_t session);

  // Peers with a handshake in hand.
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
