// The addresses that have answered a SYN with the SMC option. If such an address later answers
// without the option, it may be draining, short of memory, or under a SYN flood.
//
// Belongs to the worker's thread. Memory is bounded: of two addresses with the same slot, the later
// one replaces the other.
#pragma once

#include <array>
#include <cstddef>

#include "base/address.h"

namespace fairlead::relay {

inline constexpr std::size_t kAnnouncingPeersMax = 256;  // per worker

class AnnouncingPeers {
 public:
  void note(const SocketAddress& peer) { slots_[place_of(peer)] = peer; }
  bool known(const SocketAddress& peer) const { return slots_[place_of(peer)] == peer; }

 private:
  static std::size_t place_of(const SocketAddress& peer) {
    return peer.hash() % kAnnouncingPeersMax;
  }

  std::array<SocketAddress, kAnnouncingPeersMax> slots_{};
};

}  // namespace fairlead::relay
