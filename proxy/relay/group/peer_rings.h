// The budget that a link group pays for RMB elements of its peer, if those are addressable memory.
// The kernel charges a page to whoever touches it first, which is the sender. The pages stay when
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

// With more elements without a connection than this, a group takes no more connections. Otherwise a
// peer that names another element each time could use up all memory with one group.
inline constexpr std::size_t kIdlePeerRingsMax = 1024;

struct PeerRingId {
  RemoteKey rkey;
  RemoteAddress address;  // of the element
  friend constexpr bool operator==(const PeerRingId&, const PeerRingId&) = default;
};

class PeerRings {
 public:
  explicit PeerRings(MemoryBudget& budget) : budget_(budget) {}

  // Reserves budget before the peer has named an element. kMemoryLimit if the budget refuses.
  Result<MemoryCharge> reserve(std::size_t bytes);
  // A connection begins to use the element. The reservation pays for it, or is given back if the
  // element is paid for already. kMemoryLimit if the budget is too small; the element's charge and
  // users do not change then.
  Result<void> claim(MemoryCharge& reserved, const PeerRingId& ring, std::size_t bytes);
  // The connection has ended. True if the peer has deleted the key and no other connection uses it.
  // REQUIRES: claim() has succeeded.
  bool release(const PeerRingId& ring);
  // The peer has deleted the key. Its pages go when the last connection has ended. True if none is
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
  std::map<Key, Ring> rings_;  // each holds part of the budget, which bounds their number
  std::size_t idle_ = 0;       // rings without users
};

}  // namespace fairlead::relay
