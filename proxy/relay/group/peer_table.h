// The link groups of one worker, by peer. Role, system id, GID and version identify a peer, as in
// Linux (docs/wire.md, "Link groups"). When a group is full, another one is made.
// The id is only a claim. So a server also tells clients apart by the address of their TCP
// connection: nobody joins, fills or delays the group of a client at another address.
// The GID may be that of any link of the group: a peer speaks from whichever port is up. The local
// device on which a group began does not matter, because a link may be on any.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/address.h"
#include "base/ids.h"
#include "relay/group/address_shares.h"
#include "relay/group/group.h"

namespace fairlead::relay {

inline constexpr std::size_t kGroupsMax = 4096;  // per worker
// Limits for groups with peers at one address (IPv6: in one /64), whatever ids they claim, as parts
// of kGroupsMax and of the worker's memory. Clients come uninvited and have the smaller part. Many
// servers may share the address of a Service.
inline constexpr std::size_t kClientGroupsPart = 4;
inline constexpr std::size_t kServerGroupsPart = 2;
inline constexpr std::size_t kGroupsPerAddressMin = 8;  // however small the memory is
std::size_t groups_per_address_max(smc::GroupRole role, std::size_t memory_bytes);

struct PeerKey {
  smc::GroupRole role = smc::GroupRole::kClient;
  PeerId peer;
  Gid gid;
  SocketAddress source{};  // of the client's TCP connections, without port; set by a server only
  std::uint8_t version = 2;
  // Version 1 also tells groups apart by the peer's MAC and by the VLAN of the TCP connection.
  Mac mac{};
  std::uint16_t vlan = 0;
  friend auto operator<=>(const PeerKey&, const PeerKey&) = default;
};

class PeerTable {
 public:
  bool full() const { return groups_.size() >= kGroupsMax; }
  // True if another group of this role with peers at this address would be too many. The address is
  // that of their TCP connections, without port.
  bool full_for(smc::GroupRole role, const SocketAddress& address, std::size_t memory_bytes) const;
  // REQUIRES: !full()
  Group& add(const PeerKey& key, const SocketAddress& address, std::unique_ptr<Group> group);

  // A group in which a server can admit one more connection, or null.
  Group* with_room(const PeerKey& key) const;
  // The group whose first contact with this peer is under way, or null.
  Group* forming(const PeerKey& key) const;
  // The client's group that has, or had, a link to this queue pair of the peer. An Accept that
  // reuses a group names the queue pair.
  std::optional<LinkPlace> by_link(const PeerKey& key, QpNumber peer_queue_pair) const;
  // True if there is a usable group with this peer.
  bool knows(const PeerKey& key) const;

  // Removes the group from all indexes and destroys it.
  void remove(Group& group);

  template <class Visit>
  void for_each(Visit visit) {
    // By index: a visit may add groups.
    for (std::size_t i = 0; i < groups_.size(); ++i) visit(*groups_[i].group);
  }
  std::size_t count() const { return groups_.size(); }

 private:
  template <class Wanted>
  Group* find(const PeerKey& key, Wanted wanted) const;
  struct Entry {
    PeerKey key;
    SocketAddress address;
    std::unique_ptr<Group> group;
  };
  AddressShares& shares(smc::GroupRole role) {
    return role == smc::GroupRole::kServer ? of_clients_ : of_servers_;
  }
  std::vector<Entry> groups_;
  AddressShares of_clients_, of_servers_;
  // Keyed with the GID of the group's first link.
  std::multimap<PeerKey, Group*> by_peer_;
};

}  // namespace fairlead::relay
