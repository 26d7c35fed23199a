#include "smc/group/local_rmbs.h"

#include "base/assert.h"

namespace fairlead::smc {

Result<RmbRow> LocalRmbs::add(LinkIndex link, const RmbKey& key) {
  const std::optional<RmbRow> row = keys_.add(link, key);
  if (!row) return Error{Errc::kExhausted, "RMBs of the link group"};
  if (first_contact_) set_announced(*row, bit(link));
  return *row;
}

void LocalRmbs::remove(RmbRow rmb) {
  SMC_ASSERT(deleted(rmb), rmb);
  keys_.remove(rmb);
  announced_on_[rmb] = 0;
  deletion_[rmb] = Deletion::kNone;
}

bool LocalRmbs::announced(RmbRow rmb, const LinkSet& links) const {
  for (LinkIndex i = 0; i < kLinksMax; ++i)
    if (links.active(i) && (announced_on_[rmb] & bit(i)) == 0) return false;
  return true;
}

void LocalRmbs::set_refused(RmbRow rmb) {
  if (announced_on_[rmb] == 0 && deletion_[rmb] == Deletion::kNone)
    deletion_[rmb] = Deletion::kRefused;
}

std::optional<RmbRow> LocalRmbs::next_to_announce(const LinkSet& links) const {
  for (std::size_t row = 0; row < keys_.rows(); ++row) {
    const auto rmb = static_cast<RmbRow>(row);
    if (keys_.used(rmb) && deletion_[rmb] <= Deletion::kRefused && !announced(rmb, links))
      return rmb;
  }
  return std::nullopt;
}

std::optional<wire::RkeyEntry> LocalRmbs::entry(RmbRow rmb, LinkIndex known_on,
                                                LinkIndex added) const {
  const std::optional<RmbKey>& known = keys_.key(rmb, known_on);
  const std::optional<RmbKey>& key = keys_.key(rmb, added);
  const bool peer_knows =
      deletion_[rmb] <= Deletion::kWanted && (announced_on_[rmb] & bit(known_on)) != 0;
  if (!known || !key || !peer_knows) return std::nullopt;
  return wire::RkeyEntry{known->rkey, key->rkey, key->address};
}

void LocalRmbs::want_deleted(RmbRow rmb) {
  SMC_ASSERT(keys_.used(rmb), rmb);
  if (deletion_[rmb] <= Deletion::kRefused) deletion_[rmb] = Deletion::kWanted;
}

std::optional<LocalRmbs::Request> LocalRmbs::next_to_delete(const LinkSet& links) const {
  RmbRow rmb = 0;
  for (const Deletion deletion : deletion_) {
    if (deletion == Deletion::kWanted)
      if (const auto carrier = deletion_carrier(rmb, links)) return Request{rmb, *carrier};
    ++rmb;
  }
  return std::nullopt;
}

std::optional<LinkIndex> LocalRmbs::deletion_carrier(RmbRow rmb, const LinkSet& links) const {
  std::optional<LinkIndex> best;
  for (LinkIndex i = 0; i < kLinksMax; ++i)
    if (links.active(i) && keys_.key(rmb, i) && !requested_[i] &&
        (!best || links[i]->number() < links[*best]->number()))
      best = i;
  return best;
}

void LocalRmbs::set_deletion_requested(const Request& request) {
  deletion_[request.rmb] = Deletion::kRequested;
  requested_[request.carrier] = request.rmb;
}

bool LocalRmbs::take_answer(LinkIndex link, const wire::DeleteRkey& answer) {
  if (!requested_[link]) return false;
  const RmbRow rmb = *requested_[link];
  const RemoteKey named = answer.rkeys.view().empty() ? RemoteKey{} : answer.rkeys.items[0];
  // Linux leaves the keys out of its answers of version 2.
  if (named.value != 0 && named != keys_.key(rmb, link)->rkey) return false;
  requested_[link].reset();
  // A key that the peer does not know is one that it does not write to.
  deletion_[rmb] = Deletion::kDeleted;
  return true;
}

void LocalRmbs::handle_link_gone(LinkIndex link) {
  if (requested_[link]) deletion_[*requested_[link]] = Deletion::kWanted;
  requested_[link].reset();
}

void LocalRmbs::forget_link(LinkIndex link) {
  keys_.remove_link(link);
  for (LinkBits& links : announced_on_) links = static_cast<LinkBits>(links & ~bit(link));
}

}  // namespace fairlead::smc
