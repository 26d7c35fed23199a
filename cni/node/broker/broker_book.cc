#include "cni/node/broker/broker_book.h"

#include <algorithm>

#include "base/assert.h"

namespace fairlead::cni::node {

using broker::Refusal;

BrokerPod* BrokerBook::add_pod(const std::string& name, const WatchedPod& watched) {
  if (pods_.size() >= kBrokeredPodsMax) return nullptr;
  std::unique_ptr<BrokerPod>& pod = pods_[name];
  if (!pod) {
    if (++pods_made_ == 0) ++pods_made_;
    pod = std::make_unique<BrokerPod>(name, pods_made_, watched, shares_, unread_);
  }
  return pod.get();
}

std::vector<BrokerBook::Member> BrokerBook::remove_pod(BrokerPod& pod) {
  const std::vector<Member> members = pod.members();
  for (const Member member : members) disconnect(member);
  disown(pod.name());
  pods_.erase(pods_.find(pod.name()));
  return members;
}

BrokerPod* BrokerBook::find_pod(const std::string& name) const {
  const auto found = pods_.find(name);
  return found == pods_.end() ? nullptr : found->second.get();
}

std::optional<BrokerBook::Member> BrokerBook::connect(BrokerPod& pod, Member member) {
  seats_[member] = {&pod, {}};
  return pod.connect(member);
}

void BrokerBook::disconnect(Member member) {
  const auto seat = seats_.find(member);
  if (seat == seats_.end()) return;
  BrokerPod& pod = *seat->second.pod;
  std::erase_if(held_grants_, [&](const auto& held) {
    if (held.second.owner != member) return false;
    pod.share().grant_let_go();
    return true;
  });
  pod.disconnect(member);
  if (!seat->second.peer.is_zero()) devices_.erase(seat->second.peer);
  seats_.erase(seat);
}

Refusal BrokerBook::enroll(Member member, PeerId peer) {
  Seat& seat = seats_.at(member);
  SMC_ASSERT(seat.peer.is_zero());
  if (peer.is_zero() || devices_.contains(peer)) return Refusal::kTaken;
  if (!seat.pod->may_register()) return Refusal::kLimit;
  if (!has_owner(peer)) seat.pod->credits().charge(kRequestsPerPeerId);
  if (!own(peer, seat.pod->name())) return Refusal::kTaken;
  seat.pod->registered(member);
  seat.peer = peer;
  devices_[peer] = member;
  return Refusal::kNone;
}

bool BrokerBook::enrolled(Member member) const {
  const auto seat = seats_.find(member);
  return seat != seats_.end() && !seat->second.peer.is_zero();
}

std::optional<BrokerBook::Member> BrokerBook::find(PeerId peer) const {
  const auto found = devices_.find(peer);
  if (found == devices_.end()) return std::nullopt;
  return found->second;
}

bool BrokerBook::hold_grant(PeerId to, const HeldGrant& grant) {
  BrokerPod& pod = pod_of(grant.owner);
  const auto [begin, end] = held_grants_.equal_range(to);
  const auto own = std::count_if(
      begin, end, [&](const auto& held) { return &pod_of(held.second.owner) == &pod; });
  if (!pod.share().may_hold_grant() || own >= kHeldGrantsPerPeerMax) return false;
  held_grants_.emplace(to, grant);
  pod.share().grant_held();
  return true;
}

std::vector<BrokerBook::HeldGrant> BrokerBook::take_grants(PeerId to) {
  std::vector<HeldGrant> taken;
  const auto [begin, end] = held_grants_.equal_range(to);
  for (auto at = begin; at != end; ++at) taken.push_back(at->second);
  held_grants_.erase(begin, end);
  for (const HeldGrant& grant : taken) pod_of(grant.owner).share().grant_let_go();
  return taken;
}

// If a pod has too many ids, its oldest id without a connected device is released.
bool BrokerBook::own(PeerId peer, const std::string& pod) {
  const auto [owner, fresh] = owners_.try_emplace(peer, pod);
  if (!fresh) return owner->second == pod;
  std::deque<PeerId>& ids = ids_[pod];
  ids.push_back(peer);
  if (ids.size() > kPeerIdsPerPodMax) {
    const auto unused = std::find_if(ids.begin(), ids.end(),
                                     [&](const PeerId& id) { return !devices_.contains(id); });
    owners_.erase(*unused);
    ids.erase(unused);
  }
  ++changes_;
  return true;
}

void BrokerBook::disown(const std::string& pod) {
  const auto ids = ids_.find(pod);
  if (ids == ids_.end()) return;
  for (const PeerId& id : ids->second) owners_.erase(id);
  ids_.erase(ids);
  ++changes_;
}

std::vector<BrokerBook::Ownership> BrokerBook::ownerships() const {
  std::vector<Ownership> all;
  for (const auto& [pod, ids] : ids_)
    for (const PeerId& id : ids) all.push_back({id, pod});
  return all;
}

void BrokerBook::restore(const std::vector<Ownership>& ownerships) {
  for (const Ownership& one : ownerships)
    if (!one.peer.is_zero()) (void)own(one.peer, one.pod);
}

void BrokerBook::forget_strangers() {
  std::vector<std::string> strangers;
  for (const auto& [pod, ids] : ids_)
    if (!pods_.contains(pod)) strangers.push_back(pod);
  for (const std::string& pod : strangers) disown(pod);
}

}  // namespace fairlead::cni::node
