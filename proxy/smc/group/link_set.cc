#include "smc/group/link_set.h"

#include <utility>

#include "base/assert.h"

namespace fairlead::smc {

unsigned LinkSet::active_count() const {
  unsigned count = 0;
  for (LinkIndex i = 0; i < kLinksMax; ++i) count += active(i) ? 1U : 0U;
  return count;
}

unsigned LinkSet::count() const {
  unsigned count = 0;
  for (const std::optional<Link>& link : links_) count += link ? 1U : 0U;
  return count;
}

bool LinkSet::is_asymmetric(LinkIndex index) const {
  if (!active(index)) return false;
  const Link& link = *links_[index];
  for (LinkIndex i = 0; i < kLinksMax; ++i) {
    if (i == index || !active(i) || links_[i]->number() >= link.number()) continue;
    const bool shared =
        links_[i]->local().gid == link.local().gid || links_[i]->peer().gid == link.peer().gid;
    if (shared && !is_asymmetric(i)) return true;
  }
  return false;
}

GroupType LinkSet::type() const {
  const unsigned count = active_count();
  if (count == 0 || closed_) return GroupType::kNone;
  if (count == 1) return GroupType::kSingle;
  if (is_symmetric()) return GroupType::kSymmetric;
  std::optional<LinkIndex> first;
  std::optional<LinkIndex> spare;
  for (LinkIndex i = 0; i < kLinksMax; ++i)
    if (active(i)) (is_asymmetric(i) ? spare : first) = i;
  SMC_ASSERT(first && spare, count);
  return links_[*first]->local().gid == links_[*spare]->local().gid ? GroupType::kAsymmetricLocal
                                                                    : GroupType::kAsymmetricPeer;
}

bool LinkSet::has_room_for_connection() const {
  if (closed_ || connections_ >= connections_max_ || active_count() == 0) return false;
  return !links_[least_used()]->disowned();
}

std::optional<LinkIndex> LinkSet::find(LinkNumber number) const {
  for (LinkIndex i = 0; i < kLinksMax; ++i)
    if (links_[i] && links_[i]->state() != LinkState::kDown && links_[i]->number() == number)
      return i;
  return std::nullopt;
}

std::optional<LinkIndex> LinkSet::oldest_active(LinkIndex except) const {
  std::optional<LinkIndex> best;
  for (LinkIndex i = 0; i < kLinksMax; ++i)
    if (i != except && active(i) && (!best || links_[i]->number() < links_[*best]->number()))
      best = i;
  return best;
}

// One that is just being added may not have been connected yet.
std::optional<LinkIndex> LinkSet::any() const {
  if (const std::optional<LinkIndex> active = oldest_active()) return active;
  for (LinkIndex i = 0; i < kLinksMax; ++i)
    if (links_[i] && links_[i]->state() != LinkState::kDown) return i;
  return std::nullopt;
}

LinkIndex LinkSet::least_used() const {
  std::optional<LinkIndex> best;
  const auto cost = [&](LinkIndex i) {
    return std::pair(links_[i]->disowned(), link_connections_[i]);
  };
  for (LinkIndex i = 0; i < kLinksMax; ++i) {
    if (!active(i) || is_asymmetric(i)) continue;
    if (!best || cost(i) < cost(*best)) best = i;
  }
  SMC_ASSERT(best.has_value(), connections_);
  return *best;
}

unsigned LinkSet::symmetric_count() const {
  unsigned count = 0;
  for (LinkIndex i = 0; i < kLinksMax; ++i) count += active(i) && !is_asymmetric(i) ? 1U : 0U;
  return count;
}

bool LinkSet::is_symmetric() const { return symmetric_count() >= 2; }

bool LinkSet::has_room() const {
  const bool spare = symmetric_count() < active_count();
  return count() < kLinksMax && count() < max_ + (spare ? 1U : 0U);
}

std::optional<LinkIndex> LinkSet::free_index() const {
  std::optional<LinkIndex> best;
  for (LinkIndex i = 0; i < kLinksMax; ++i)
    if (!links_[i] && (!best || released_[i] < released_[*best])) best = i;
  return best;
}

LinkNumber LinkSet::next_number() {
  do {
    if (++last_number_.value == 0) ++last_number_.value;
  } while (find(last_number_));
  return last_number_;
}

void LinkSet::remove(LinkIndex link) {
  links_[link].reset();
  released_[link] = ++releases_;
}

void LinkSet::connection_added(LinkIndex link) {
  ++connections_;
  ++link_connections_[link];
  idle_since_.reset();
}

void LinkSet::connection_removed(LinkIndex link, TimePoint now) {
  SMC_ASSERT(connections_ != 0 && link_connections_[link] != 0, connections_);
  --link_connections_[link];
  if (--connections_ == 0) idle_since_ = now;
}

void LinkSet::move_connections(LinkIndex from, LinkIndex to) {
  link_connections_[to] += link_connections_[from];
  link_connections_[from] = 0;
}

}  // namespace fairlead::smc
