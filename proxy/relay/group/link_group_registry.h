// The link groups of a worker, by peer: how they begin, what their events mean to those who wait
// for them or have connections in them, and how they end. Belongs to the worker's thread.
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

// Sessions that may wait for one first contact; more would time out before their turn.
inline constexpr std::size_t kWaitersMax = 1024;

class LinkGroupRegistry {
 public:
  // `worker` is in the names of groups, `seed` gives tokens their beginning.
  LinkGroupRegistry(GroupResources& shared, unsigned worker, std::uint64_t seed)
      : shared_(shared), worker_(worker), random_(seed) {}

  PeerTable& peers() { return peers_; }

  // A group with the peer of `key`, at this address of its TCP connection, without port. Fills in
  // what is missing in `start`: id, role, peer and random number.
  Result<Group*> create(const PeerKey& key, const SocketAddress& address, GroupStart start);

  // The owner waits until `group` is confirmed or lost. False when too many do.
  bool wait_for(Group& group, ConnectionOwner& owner);
  void stop_waiting(const ConnectionOwner& owner);

  // Acts on what the groups have changed since the last call. What changes meanwhile waits.
  void handle_events();
  bool events_pending() const { return !shared_.changed.empty(); }
  // Gives what is due to the devices. True when there was something.
  bool flush(TimePoint now);
  // Destroys terminated groups whose connections have left, when both sides have had their final
  // messages.
  void destroy_closed();
  // Tells every peer that its groups are gone.
  void terminate_all(const char* why);

  std::vector<LinkGroupRow> rows(TimePoint now);

 private:
  void handle_events_of(Group& group);
  void handle_terminated(Group& group, const char* why);
  void notify_announced(Group& group);
  // Those with a connection in the group, and those that wait for it; these wait no longer.
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
  std::uint64_t created_ = 0;  // the number in the latest name
};

}  // namespace fairlead::relay
