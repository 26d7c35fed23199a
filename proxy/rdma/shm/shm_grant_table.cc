#include "rdma/shm/shm_grant_table.h"

#include <limits>

namespace fairlead::rdma::shm {

void GrantTable::add(PeerId peer, std::uint32_t pod, const broker::BufferId& buffer,
                     CountedMapping memory) {
  if (grants_.size() >= max_) make_room();
  grants_.emplace(Key{peer, buffer}, Grant{pod, std::move(memory)});
}

// Numbers of a broker grow, so the first of a peer is its oldest.
void GrantTable::make_room() {
  struct Share {
    std::size_t count = 0;
    decltype(grants_)::iterator first;
  };
  std::map<std::pair<std::uint32_t, PeerId>, Share> shares;
  const Share* most = nullptr;
  for (auto at = grants_.begin(); at != grants_.end(); ++at) {
    const std::uint32_t pod = at->second.pod;
    Share& share = shares[{pod, pod == 0 ? at->first.first : PeerId{}}];
    if (share.count++ == 0) share.first = at;
    if (most == nullptr || share.count > most->count) most = &share;
  }
  if (most != nullptr) grants_.erase(most->first);
}

std::optional<CountedMapping> GrantTable::take(PeerId peer, const broker::BufferId& buffer) {
  const auto found = grants_.find(Key{peer, buffer});
  if (found == grants_.end()) return std::nullopt;
  CountedMapping memory = std::move(found->second.memory);
  grants_.erase(found);
  return memory;
}

void GrantTable::forget(PeerId peer) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  grants_.erase(grants_.lower_bound(Key{peer, {}}), grants_.upper_bound(Key{peer, {kMax, kMax}}));
}

}  // namespace fairlead::rdma::shm
