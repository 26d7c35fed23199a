#include "rdma/shm/channel/shm_grant_table.h"

#include <limits>

namespace fairlead::rdma::shm {

void GrantTable::add(PeerId peer, std::uint32_t pod, const broker::BufferId& buffer,
                     CountedMapping memory) {
  if (grants_.size() >= max_) make_room();
  const std::uint64_t number = ++added_;
  const auto added = grants_.emplace(Key{peer, buffer}, Grant{pod, number, std::move(memory)});
  const OwnerKey owner = owner_of(peer, pod);
  auto& own = owners_[owner];
  by_count_.erase({own.size(), owner});
  own.emplace(number, added);
  by_count_.emplace(own.size(), owner);
}

void GrantTable::make_room() {
  if (!by_count_.empty()) erase(owners_.at(by_count_.rbegin()->second).begin()->second);
}

GrantTable::Grants::iterator GrantTable::erase(Grants::iterator grant) {
  const OwnerKey owner = owner_of(grant->first.first, grant->second.pod);
  const auto own = owners_.find(owner);
  by_count_.erase({own->second.size(), owner});
  own->second.erase(grant->second.number);
  if (own->second.empty())
    owners_.erase(own);
  else
    by_count_.emplace(own->second.size(), owner);
  return grants_.erase(grant);
}

std::optional<CountedMapping> GrantTable::take(PeerId peer, const broker::BufferId& buffer) {
  const auto found = grants_.find(Key{peer, buffer});
  if (found == grants_.end()) return std::nullopt;
  CountedMapping memory = std::move(found->second.memory);
  erase(found);
  return memory;
}

void GrantTable::forget(PeerId peer) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  const auto end = grants_.upper_bound(Key{peer, {kMax, kMax}});
  for (auto at = grants_.lower_bound(Key{peer, {}}); at != end;) at = erase(at);
}

}  // namespace fairlead::rdma::shm
