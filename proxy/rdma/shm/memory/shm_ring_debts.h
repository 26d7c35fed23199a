// How long the bells of each pod take to ring. To ring is to walk the wait queue of an object that
// the peer holds, and the peer may have added it to very many epoll instances. A pod whose bells
// take more than a share of the processor has no channels for as long as it owes.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "base/ids.h"
#include "base/time.h"

namespace fairlead::rdma::shm {

class RingDebts {
 public:
  // A ring of a channel with `peer` took so much processor time. False: the pod owes more than
  // kRingDebtMax now. `pod` 0 stands for none: then each peer owes for itself.
  bool add(std::uint32_t pod, PeerId peer, Duration spent, TimePoint now);
  // It may have a channel.
  bool good(std::uint32_t pod, PeerId peer, TimePoint now) const;

 private:
  using Key = std::pair<std::uint32_t, PeerId>;
  struct Debt {
    Duration owed{};
    TimePoint at{};
  };
  static Key key_of(std::uint32_t pod, PeerId peer) { return {pod, pod == 0 ? peer : PeerId{}}; }
  static Duration owed_at(const Debt& debt, TimePoint now);

  std::map<Key, Debt> debts_;  // of those that owe; kRingDebtorsMax
};

}  // namespace fairlead::rdma::shm
