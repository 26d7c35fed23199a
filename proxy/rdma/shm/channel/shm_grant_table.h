// Memory of peers' buffers that the connector has brought, until the announcement that refers to it
// is handled. Bounded: at the limit the oldest of the pod with most goes, because a pod can have
// many peer ids. Where there are no pods each peer counts for itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/ids.h"
#include "broker/message.h"
#include "rdma/shm/memory/shm_map_budget.h"
#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

class GrantTable {
 public:
  explicit GrantTable(std::size_t max = kUnclaimedGrantsMax) : max_(max) {}

  // `pod` 0 stands for none. `memory` is empty for a buffer that could not be mapped.
  void add(PeerId peer, std::uint32_t pod, const broker::BufferId& buffer, CountedMapping memory);
  std::optional<CountedMapping> take(PeerId peer, const broker::BufferId& buffer);
  void forget(PeerId peer);
  std::size_t count() const { return grants_.size(); }
  std::size_t count(PeerId peer, const broker::BufferId& buffer) const {
    return grants_.count(Key{peer, buffer});
  }

 private:
  using Key = std::pair<PeerId, broker::BufferId>;
  using OwnerKey = std::pair<std::uint32_t, PeerId>;  // a pod, or where there are none a peer
  struct Grant {
    std::uint32_t pod;
    std::uint64_t number;  // grows
    CountedMapping memory;
  };
  using Grants = std::multimap<Key, Grant>;
  static OwnerKey owner_of(PeerId peer, std::uint32_t pod) {
    return {pod, pod == 0 ? peer : PeerId{}};
  }
  void make_room();
  Grants::iterator erase(Grants::iterator grant);

  std::size_t max_;
  std::uint64_t added_ = 0;
  // One buffer may be granted once for each channel with its owner.
  Grants grants_;
  std::map<OwnerKey, std::map<std::uint64_t, Grants::iterator>> owners_;  // the oldest first
  std::set<std::pair<std::size_t, OwnerKey>> by_count_;                   // of owners_
};

}  // namespace fairlead::rdma::shm
