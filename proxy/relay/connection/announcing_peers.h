// The addresses that have answered with the SMC option lately. One that answers without it is no
// stranger: it may be drained, or short of memory, or under a flood of SYNs.
//
// Threads: the worker's. Memory is bounded: an address takes the place of another one with the same
// hash, which is forgotten.
#pragma once

#include <array>
#include <cstddef>

#include "base/address.h"

namespace fairlead::relay {

inline constexpr std::size_t kAnnouncingPeersMax = 256;  // per worker

class AnnouncingPeers {
 public:
  void note(const SocketAddress& peer) { slot_of(peer) = peer; }
  bool known(const SocketAddress& peer) const { return slots_[place_of(peer)] == peer; }

 private:
  static std::size_t place_of(const SocketAddress& peer) {
    return peer.hash() % kAnnouncingPeersMax;
  }
  SocketAddress& slot_of(const SocketAddress& peer) { return slots_[place_of(peer)]; }

  std::array<SocketAddress, kAnnouncingPeersMax> slots_{};
};

}  // namespace fairlead::relay
