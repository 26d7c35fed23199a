#include "relay/peer_table.h"

#include <algorithm>

#include "base/assert.h"

namespace fairlead::relay {

Group& PeerTable::add(const PeerKey& key, std::unique_ptr<Group> group) {
  SMC_ASSERT(!full(), groups_.size());
  Group& added = *group;
  by_peer_.emplace(key, &added);
  by_queue_pair_.emplace(added.identity().queue_pair, &added);
  groups_.push_back({key, std::move(group)});
  return added;
}

Group* PeerTable::with_room(const PeerKey& key) const {
  for (auto [at, end] = by_peer_.equal_range(key); at != end; ++at)
    if (at->second->has_room()) return at->second;
  return nullptr;
}

Group* PeerTable::forming(const PeerKey& key) const {
  for (auto [at, end] = by_peer_.equal_range(key); at != end; ++at) {
    const smc::LinkGroup& protocol = at->second->protocol();
    if (!protocol.usable() && !protocol.terminated()) return at->second;
  }
  return nullptr;
}

Group* PeerTable::by_link(const PeerKey& key, QpNumber peer_queue_pair) const {
  for (auto [at, end] = by_peer_.equal_range(key); at != end; ++at) {
    Group& group = *at->second;
    if (!group.protocol().usable()) continue;
    if (group.link_to(peer_queue_pair)) return &group;
  }
  return nullptr;
}

Group* PeerTable::by_queue_pair(QpNumber number) const {
  const auto found = by_queue_pair_.find(number);
  return found == by_queue_pair_.end() ? nullptr : found->second;
}

void PeerTable::remove(Group& group) {
  by_queue_pair_.erase(group.identity().queue_pair);
  std::erase_if(by_peer_, [&](const auto& entry) { return entry.second == &group; });
  std::erase_if(groups_, [&](const Entry& entry) { return entry.group.get() == &group; });
}

}  // namespace fairlead::relay
