#include "rdma/shm/shm_grant_table.h"

#include <limits>

namespace fairlead::rdma::shm {

void GrantTable::add(PeerId peer, const broker::BufferId& buffer, CountedMapping memory) {
  if (grants_.size() >= max_) make_room();
  grants_.emplace(Key{peer, buffer}, std::move(memory));
}

// Numbers of a broker grow, so the first of a peer is its oldest.
void GrantTable::make_room() {
  auto most = grants_.begin();
  std::size_t most_count = 0;
  for (auto at = grants_.begin(); at != grants_.end();) {
    const auto first = at;
    std::size_t count = 0;
    for (; at != grants_.end() && at->first.first == first->first.first; ++at) ++count;
    if (count > most_count) {
      most = first;
      most_count = count;
    }
  }
  grants_.erase(most);
}

std::optional<CountedMapping> GrantTable::take(PeerId peer, const broker::BufferId& buffer) {
  const auto found = grants_.find(Key{peer, buffer});
  if (found == grants_.end()) return std::nullopt;
  CountedMapping memory = std::move(found->second);
  grants_.erase(found);
  return memory;
}

void GrantTable::forget(PeerId peer) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  grants_.erase(grants_.lower_bound(Key{peer, {}}), grants_.upper_bound(Key{peer, {kMax, kMax}}));
}

}  // namespace fairlead::rdma::shm
