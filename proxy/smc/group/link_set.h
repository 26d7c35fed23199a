// The links of a group: which there are, their numbers, and how many connections each carries.
// Knows no messages and no flows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ids.h"
#include "base/time.h"
#include "smc/group/link.h"
#include "smc/group/rmb_keys.h"

namespace fairlead::smc {

enum class GroupType : std::uint8_t {
  kNone,             // no link is active
  kSingle,           // one link: a failure ends all connections
  kSymmetric,        // two or more, without a port in common
  kAsymmetricLocal,  // … that share a local port
  kAsymmetricPeer,   // … that share a port of the peer's
};

constexpr std::string_view to_string(GroupType type) {
  switch (type) {
    case GroupType::kNone:
      return "none";
    case GroupType::kSingle:
      return "single";
    case GroupType::kSymmetric:
      return "symmetric";
    case GroupType::kAsymmetricLocal:
      return "asymmetric_local";
    case GroupType::kAsymmetricPeer:
      return "asymmetric_peer";
  }
  return "?";
}

class LinkSet {
 public:
  // `max`: of links that stay. Has no connections since `now`.
  LinkSet(unsigned max, unsigned connections_max, TimePoint now)
      : max_(max), connections_max_(connections_max), idle_since_(now) {}

  unsigned max() const { return max_; }
  std::optional<Link>& operator[](LinkIndex index) { return links_[index]; }
  const std::optional<Link>& operator[](LinkIndex index) const { return links_[index]; }
  const std::array<std::optional<Link>, kLinksMax>& all() const { return links_; }

  bool active(LinkIndex index) const {
    return links_[index] && links_[index]->state() == LinkState::kActive;
  }
  unsigned active_count() const;
  // Those that exist, whatever their state.
  unsigned count() const;
  // True if the link shares a local or a peer's port with an older one.
  bool is_asymmetric(LinkIndex index) const;
  // kNone after close().
  GroupType type() const;
  // True if a link that is not disowned can carry one more connection. False after close().
  bool has_room_for_connection() const;
  // The group has ended.
  void close() { closed_ = true; }

  // A link that is not down.
  std::optional<LinkIndex> find(LinkNumber number) const;
  // The oldest active link, so that both sides choose the same.
  std::optional<LinkIndex> oldest_active(LinkIndex except = kLinksMax) const;
  // A link that can carry a message, if only before the first one is confirmed.
  std::optional<LinkIndex> any() const;
  // The active link with the fewest connections, for the next one; a disowned link only if there is
  // no other. REQUIRES: a link is active.
  LinkIndex least_used() const;

  // True if one more link can be added. A link that shares a port does not count: it is replaced by
  // a better one, and deleted only when that is active.
  bool has_room() const;
  // True if two links or more share no port, so that those which do are not needed.
  bool is_symmetric() const;
  // The index that has been free for longest.
  std::optional<LinkIndex> free_index() const;
  // Numbers grow, skip 0 and those in use.
  LinkNumber next_number();
  // Its queue pair is gone, and the index is free.
  void remove(LinkIndex link);

  unsigned connections() const { return connections_; }
  unsigned connections(LinkIndex link) const { return link_connections_[link]; }
  // Empty while there are connections.
  std::optional<TimePoint> idle_since() const { return idle_since_; }
  void connection_added(LinkIndex link);
  void connection_removed(LinkIndex link, TimePoint now);
  void move_connections(LinkIndex from, LinkIndex to);

 private:
  unsigned symmetric_count() const;

  unsigned max_;
  unsigned connections_max_;
  bool closed_ = false;
  std::array<std::optional<Link>, kLinksMax> links_;
  std::array<unsigned, kLinksMax> link_connections_{};
  unsigned connections_ = 0;
  std::optional<TimePoint> idle_since_;
  LinkNumber last_number_{0};
  std::array<std::uint64_t, kLinksMax> released_{};  // when each index became free, counted
  std::uint64_t releases_ = 0;
};

}  // namespace fairlead::smc
