#include "rdma/shm/memory/shm_ring_debts.h"

#include <algorithm>

#include "rdma/shm/shm_limits.h"

namespace fairlead::rdma::shm {

Duration RingDebts::owed_at(const Debt& debt, TimePoint now) {
  return std::max(Duration::zero(), debt.owed - (now - debt.at) / kRingDebtShare);
}

bool RingDebts::add(std::uint32_t pod, PeerId peer, Duration spent, TimePoint now) {
  if (spent <= kRingTimeFree) return true;
  if (debts_.size() >= kRingDebtorsMax)
    std::erase_if(debts_,
                  [&](const auto& one) { return owed_at(one.second, now) == Duration::zero(); });
  // Only pods are many at the same time, and the broker knows fewer of them.
  if (debts_.size() >= kRingDebtorsMax) debts_.clear();
  Debt& debt = debts_[key_of(pod, peer)];
  debt = {owed_at(debt, now) + spent - kRingTimeFree, now};
  return debt.owed <= kRingDebtMax;
}

bool RingDebts::good(std::uint32_t pod, PeerId peer, TimePoint now) const {
  const auto found = debts_.find(key_of(pod, peer));
  return found == debts_.end() || owed_at(found->second, now) <= kRingDebtMax;
}

}  // namespace fairlead::rdma::shm
