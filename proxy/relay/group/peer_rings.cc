#include "relay/group/peer_rings.h"

#include "base/assert.h"

namespace fairlead::relay {

Result<MemoryCharge> PeerRings::reserve(std::size_t bytes) {
  std::optional<MemoryCharge> charge = MemoryCharge::take(budget_, MemoryUse::kPeerRings, bytes);
  if (!charge) return Error{Errc::kMemoryLimit, kBudgetSpent};
  return std::move(*charge);
}

Result<void> PeerRings::claim(MemoryCharge& reserved, const PeerRingId& ring, std::size_t bytes) {
  const auto found = rings_.find(key_of(ring));
  if (found == rings_.end()) {
    if (!reserved.resize(bytes)) return Error{Errc::kMemoryLimit, kBudgetSpent};
    rings_.emplace(key_of(ring), Ring{std::move(reserved), 1, false});
    return {};
  }
  Ring& paid = found->second;
  const std::size_t before = paid.charge.bytes();
  // Released first, because the rest may need the room of the reservation.
  reserved = {};
  if (bytes > before && !paid.charge.resize(bytes)) return Error{Errc::kMemoryLimit, kBudgetSpent};
  if (paid.users++ == 0) --idle_;
  return {};
}

bool PeerRings::used(RemoteKey rkey) const {
  for (auto at = rings_.lower_bound({rkey.value, 0});
       at != rings_.end() && at->first.rkey == rkey.value; ++at)
    if (at->second.users != 0) return true;
  return false;
}

bool PeerRings::release(const PeerRingId& ring) {
  const auto found = rings_.find(key_of(ring));
  SMC_ASSERT(found != rings_.end() && found->second.users != 0, ring.rkey.value);
  if (--found->second.users != 0) return false;
  if (!found->second.forgotten) {
    ++idle_;
    return false;
  }
  rings_.erase(found);
  return !used(ring.rkey);
}

bool PeerRings::forget(RemoteKey rkey) {
  for (auto at = rings_.lower_bound({rkey.value, 0});
       at != rings_.end() && at->first.rkey == rkey.value;) {
    if (at->second.users != 0) {
      at->second.forgotten = true;
      ++at;
    } else {
      --idle_;
      at = rings_.erase(at);
    }
  }
  return !used(rkey);
}

}  // namespace fairlead::relay
