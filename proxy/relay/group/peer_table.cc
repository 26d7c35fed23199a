#include "relay/group/peer_table.h"

#include <algorithm>

#include "base/assert.h"

namespace fairlead::relay {

std::size_t groups_per_address_max(smc::GroupRole role, std::size_t memory_bytes) {
  const std::size_t part = role == smc::GroupRole::kServer ? kClientGroupsPart : kServerGroupsPart;
  return std::clamp(memory_bytes / part / kGroupBytes, kGroupsPerAddressMin, kGroupsMax / part);
}

namespace {

// The lowest key that a group of this peer can have.
PeerKey lowest(const PeerKey& key) {
  PeerKey low{key.role, key.peer, Gid{}, {}};
  low.version = 0;
  return low;
}

bool same_protocol(const PeerKey& one, const PeerKey& other) {
  return one.version == other.version && one.vlan == other.vlan;
}

}  // namespace

Group& PeerTable::add(const PeerKey& key, const SocketAddress& address,
                      std::unique_ptr<Group> group) {
  SMC_ASSERT(!full(), groups_.size());
  Group& added = *group;
  by_peer_.emplace(key, &added);
  groups_.push_back({key, address, std::move(group)});
  shares(key.role).add(address);
  return added;
}

bool PeerTable::full_for(smc::GroupRole role, const SocketAddress& address,
                         std::size_t memory_bytes) const {
  if (full()) return true;
  const AddressShares& shares = role == smc::GroupRole::kServer ? of_clients_ : of_servers_;
  return shares.count(address) >= groups_per_address_max(role, memory_bytes);
}

// Looks first at groups that were made for this GID, then at groups with a link to it. A peer
// without a system id is known by its GID only.
template <class Wanted>
Group* PeerTable::find(const PeerKey& key, Wanted wanted) const {
  for (auto [at, end] = by_peer_.equal_range(key); at != end; ++at)
    if (wanted(*at->second)) return at->second;
  if (key.peer.is_zero()) return nullptr;
  for (auto at = by_peer_.lower_bound(lowest(key));
       at != by_peer_.end() && at->first.role == key.role && at->first.peer == key.peer; ++at)
    if (at->first.source == key.source && same_protocol(at->first, key) &&
        at->second->transport().leads_to(key.gid, key.mac, at->second->protocol().links()) &&
        wanted(*at->second))
      return at->second;
  return nullptr;
}

Group* PeerTable::with_room(const PeerKey& key) const {
  return find(key, [](Group& group) { return group.has_room(); });
}

Group* PeerTable::forming(const PeerKey& key) const {
  return find(key, [](Group& group) {
    return !group.protocol().usable() && !group.protocol().terminated();
  });
}

std::optional<LinkPlace> PeerTable::by_link(const PeerKey& key, QpNumber peer_queue_pair) const {
  for (auto at = by_peer_.lower_bound(lowest(key));
       at != by_peer_.end() && at->first.role == key.role && at->first.peer == key.peer; ++at) {
    Group& group = *at->second;
    if (!group.protocol().usable() || !same_protocol(at->first, key)) continue;
    const std::optional<smc::LinkIndex> link =
        group.transport().link_to(peer_queue_pair, key.gid, key.mac);
    if (link) return LinkPlace{&group, *link};
  }
  return std::nullopt;
}

bool PeerTable::knows(const PeerKey& key) const {
  return find(key, [](Group& group) { return group.protocol().usable(); }) != nullptr;
}

void PeerTable::remove(Group& group) {
  std::erase_if(by_peer_, [&](const auto& entry) { return entry.second == &group; });
  std::erase_if(groups_, [&](const Entry& entry) {
    if (entry.group.get() != &group) return false;
    shares(entry.key.role).remove(entry.address);
    return true;
  });
}

}  // namespace fairlead::relay
