// What a link group pays for RMB elements of its peer, where those are addressable memory. The
// kernel charges a page to whoever touches it first, and that is the sender. The pages stay when
// the connection has ended: the peer keeps its slab, and gives the element to the next connection.
// So an element is paid for once, from the first connection that may write to it until the peer
// deletes the key or the group ends.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

#include "base/ids.h"
#include "base/result.h"
#include "relay/pipes/memory_budget.h"

namespace fairlead::relay {

// Elements without a connection with which a group takes no more connections: a peer that names
// another element each time cannot use up all memory with one group.
inline constexpr std::size_t kIdlePeerRingsMax = 1024;

struct PeerRingId {
  RemoteKey rkey;
  RemoteAddress address;  // of the element
  friend constexpr bool operator==(const PeerRingId&, const PeerRingId&) = default;
};

class PeerRings {
 public:
  explicit PeerRings(MemoryBudget& budget) : budget_(budget) {}

  // Before the peer has named an element. kMemoryLimit where the budget refuses.
  Result<MemoryCharge> reserve(std::size_t bytes);
  // A connection begins to use the element. What was reserved pays for it, or is given back where
  // it has been paid for before. kMemoryLimit, and nothing changes, where more is needed than there
  // is.
  Result<void> claim(MemoryCharge& reserved, const PeerRingId& ring, std::size_t bytes);
  // The connection has ended. True when the peer has deleted the key and no other connection uses
  // it. REQUIRES: claimed
  bool release(const PeerRingId& ring);
  // The peer has deleted the key: its pages go when the last connection has. True when none is
  // left.
  bool forget(RemoteKey rkey);

  bool crowded() const { return idle_ > kIdlePeerRingsMax; }

 private:
  struct Key {
    std::uint32_t rkey;
    std::uint64_t address;
    friend constexpr auto operator<=>(const Key&, const Key&) = default;
  };
  struct Ring {
    MemoryCharge charge;
    unsigned users = 0;
    bool forgotten = false;
  };
  bool used(RemoteKey rkey) const;
  static Key key_of(const PeerRingId& ring) { return {ring.rkey.value, ring.address.value}; }

  MemoryBudget& budget_;
  std::map<Key, Ring> rings_;  // each holds a part of the budget, which bounds their number
  std::size_t idle_ = 0;       // of them without users
};

}  // namespace fairlead::relay
