#include "sim/spare.h"

#include <set>
#include <vector>

#include "sim/sim_queue_pair.h"

namespace fairlead::sim {
namespace {

class Look {
 public:
  Look(std::span<const std::unique_ptr<SimProxy>> proxies, const Fabric& fabric,
       const Victim& victim)
      : fabric_(fabric),
        victim_(victim),
        device_(proxies[victim.pod - 1]->devices()[victim.device]) {
    each_group(proxies, [&](relay::Group& group) {
      for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i)
        if (group.protocol().links().active(i) && !group.protocol().links()[i]->deletion())
          active_.insert(&queue_pair(group, i));
    });
    each_group(proxies, [&](relay::Group& group) { spare_ = spare_ && can_do_without(group); });
  }
  bool spare() const { return spare_; }

 private:
  template <class Visit>
  void each_group(std::span<const std::unique_ptr<SimProxy>> proxies, Visit visit) {
    for (const auto& proxy : proxies)
      if (proxy->running()) proxy->worker()->groups().peers().for_each(visit);
  }
  static const SimQueuePair& queue_pair(relay::Group& group, smc::LinkIndex link) {
    return static_cast<const SimQueuePair&>(*group.transport().queue_pair(link));
  }
  bool hit(const SimQueuePair& queue_pair) const {
    if (&queue_pair.device() != device_) return false;
    return queue_pair.number() == victim_.queue_pair || queue_pair.port() == victim_.port;
  }
  bool can_do_without(relay::Group& group) const {
    if (group.protocol().terminated()) return true;
    bool touched = false;
    for (smc::LinkIndex i = 0; i < smc::kLinksMax; ++i) {
      if (group.transport().queue_pair(i) == nullptr) continue;
      const SimQueuePair& own = queue_pair(group, i);
      const SimQueuePair* peer = fabric_.opposite(own);
      const bool goes = hit(own) || (peer != nullptr && hit(*peer));
      touched = touched || goes;
      if (!goes && peer != nullptr && active_.contains(&own) && active_.contains(peer)) return true;
    }
    // A group that is being created has no other link, and may not be connected yet.
    return group.protocol().usable() && !touched;
  }

  const Fabric& fabric_;
  const Victim& victim_;
  const SimDevice* device_;
  std::set<const SimQueuePair*> active_;
  bool spare_ = true;
};

}  // namespace

bool can_spare(std::span<const std::unique_ptr<SimProxy>> proxies, const Fabric& fabric,
               const Victim& victim) {
  return Look(proxies, fabric, victim).spare();
}

}  // namespace fairlead::sim
