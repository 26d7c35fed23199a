// Memory of peers' buffers that the connector has brought, until the announcement that refers to it
// is handled. Bounded: at the limit the oldest of the pod with most goes, because a pod can have
// many peer ids. Where there are no pods each peer counts for itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/ids.h"
#include "broker/message.h"
#include "rdma/shm/shm_limits.h"
#include "rdma/shm/shm_map_budget.h"

namespace fairlead::rdma::shm {

class GrantTable {
 public:
  explicit GrantTable(std::size_t max = kUnclaimedGrantsMax) : max_(max) {}

  // `pod` 0 stands for none.
  void add(PeerId peer, std::uint32_t pod, const broker::BufferId& buffer, CountedMapping memory);
  std::optional<CountedMapping> take(PeerId peer, const broker::BufferId& buffer);
  void forget(PeerId peer);
  std::size_t count() const { return grants_.size(); }

 private:
  using Key = std::pair<PeerId, broker::BufferId>;
  struct Grant {
    std::uint32_t pod;
    CountedMapping memory;
  };
  void make_room();

  std::size_t max_;
  // One buffer may be granted once for each channel with its owner.
  std::multimap<Key, Grant> grants_;
};

}  // namespace fairlead::rdma::shm
