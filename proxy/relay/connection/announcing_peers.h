// The addresses that have answered a SYN with the SMC option. If one of them answers without it
// later, it is no stranger: it may be drained, short of memory, or under a flood of SYNs.
//
// Threads: the worker's. Memory is bounded: an address replaces another one with the same place.
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
