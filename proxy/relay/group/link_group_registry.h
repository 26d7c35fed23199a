// The link groups of a worker, by peer: creates them, passes their events to the owners of waiting
// or joined connections, and destroys them. Belongs to the worker's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/snapshot.h"
#include "relay/connection/connection_owner.h"
#include "relay/group/group.h"
#include "relay/group/group_resources.h"
#include "relay/group/peer_table.h"

namespace fairlead::relay {

// Sessions of a worker that may wait for first contacts; more would time out before their turn.
inline constexpr std::size_t kWaitersMax = 1024;

class LinkGroupRegistry {
 public:
  // `worker` is part of group names; `seed` makes the first tokens random.
  LinkGroupRegistry(GroupResources& shared, unsigned worker, std::uint64_t seed)
      : shared_(shared), worker_(worker), random_(seed) {}

  PeerTable& peers() { return peers_; }

  // Creates a group with the peer of `key`. `address` is that of the peer's TCP connection, without
  // port. Fills in the rest of `start`: id, role, peer and random number.
  Result<Group*> create(const PeerKey& key, const SocketAddress& address, GroupStart start);

  // `owner` waits until `group` is confirmed or lost. False if too many owners wait already.
  bool wait_for(Group& group, ConnectionOwner& owner);
  void stop_waiting(const ConnectionOwner& owner);

  // Handles the events of groups that have changed since the last call. New changes wait for the
  // next.
  void handle_events();
  bool events_pending() const { return !shared_.changed.empty(); }
  // Posts what is due to the devices. True if there was anything.
  bool flush(TimePoint now);
  // Destroys terminated groups that have no connections left, when both sides have had their final
  // messages or kClosingWait is over.
  void destroy_closed();
  // Tells every peer that its groups are gone.
  void terminate_all(const char* why);

  std::vector<LinkGroupRow> rows(TimePoint now);

 private:
  void handle_events_of(Group& group);
  void handle_terminated(Group& group, const char* why);
  void notify_announced(Group& group);
  // The owners of connections in the group and those that wait for it. The latter stop waiting.
  std::vector<ConnectionOwner*> owners_of(Group& group);
  static std::vector<ConnectionOwner*> owners_of_connections(Group& group);

  GroupResources& shared_;
  const unsigned worker_;
  std::mt19937_64 random_;
  PeerTable peers_;
  std::unordered_multimap<Group*, ConnectionOwner*> waiting_;
  struct ClosingGroup {
    Group* group;
    TimePoint until;
  };
  std::vector<ClosingGroup> closing_;
  std::optional<event::Timer> closing_timer_;
  std::uint64_t created_ = 0;  // number in the latest group name
};

}  // namespace fairlead::relay
