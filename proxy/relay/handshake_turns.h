// How many handshakes a peer has in hand at a time. Linux makes its own one after the other and
// gives each 6 s: a crowd that knocks at once would see most of its number time out, where a line
// of them is served.
//
// Sessions are told apart by their numbers; a number is in line or has its turn at most once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "base/address.h"

namespace fairlead::relay {

class HandshakeTurns {
 public:
  // REQUIRES: per_peer_max != 0
  explicit HandshakeTurns(std::size_t per_peer_max) : per_peer_max_(per_peer_max) {}

  // True: its turn has come. False: it stands in line, the line of this address; ports play no
  // part.
  bool take(const SocketAddress& peer, std::uint64_t session);
  // Ends a turn. The session whose turn has come by that, if one stands in line.
  std::optional<std::uint64_t> give_back(const SocketAddress& peer);
  // Stands in line no longer.
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
