#include "cni/node/broker/broker_book.h"

#include <algorithm>
#include <chrono>

#include "base/assert.h"

namespace fairlead::cni::node {

using broker::Refusal;

bool BrokerBook::add_pod(const std::string& pod) {
  if (pods_.size() >= kBrokeredPodsMax) return false;
  const auto [made, fresh] = pods_.try_emplace(pod);
  if (fresh && ++pods_made_ == 0) ++pods_made_;
  if (fresh) made->second.number = pods_made_;
  return true;
}

std::vector<BrokerBook::Member> BrokerBook::remove_pod(const std::string& pod) {
  const std::vector<Member> members = members_of(pod);
  for (const Member member : members) disconnect(member);
  disown(pod);
  pods_.erase(pod);
  return members;
}

std::optional<Duration> BrokerBook::spend(const std::string& name, TimePoint now) {
  Pod& pod = pods_.at(name);
  const std::chrono::duration<double> passed =
      pod.counted_at ? now - *pod.counted_at : Duration::zero();
  pod.counted_at = now;
  pod.requests = std::min(kRequestsBurst, pod.requests + passed.count() * kRequestsPerSecond);
  if (pod.requests >= 1) {
    pod.requests -= 1;
    return std::nullopt;
  }
  const std::chrono::duration<double> missing((1 - pod.requests) / kRequestsPerSecond);
  return std::chrono::ceil<std::chrono::milliseconds>(missing);
}

void BrokerBook::charge(const std::string& pod, double requests) {
  pods_.at(pod).requests -= requests;
}

std::optional<BrokerBook::Member> BrokerBook::connect(const std::string& name, Member member) {
  Pod& pod = pods_.at(name);
  std::optional<Member> leaves;
  // Clients that connect and send nothing must not exclude others of their pod.
  if (pod.guests.size() >= kGuestsPerPodMax) leaves = pod.guests.front();
  pod.members.insert(member);
  pod.guests.push_back(member);
  seats_[member] = {name, {}};
  return leaves;
}

void BrokerBook::disconnect(Member member) {
  const auto seat = seats_.find(member);
  if (seat == seats_.end()) return;
  Pod& pod = pods_.at(seat->second.pod);
  pod.members.erase(member);
  std::erase(pod.guests, member);
  if (!seat->second.peer.is_zero()) devices_.erase(seat->second.peer);
  seats_.erase(seat);
}

Refusal BrokerBook::enroll(Member member, PeerId peer) {
  Seat& seat = seats_.at(member);
  SMC_ASSERT(seat.peer.is_zero());
  if (peer.is_zero() || devices_.contains(peer)) return Refusal::kTaken;
  Pod& pod = pods_.at(seat.pod);
  if (pod.members.size() - pod.guests.size() >= kDevicesPerPodMax) return Refusal::kLimit;
  if (!own(peer, seat.pod)) return Refusal::kTaken;
  std::erase(pod.guests, member);
  seat.peer = peer;
  devices_[peer] = member;
  return Refusal::kNone;
}

bool BrokerBook::enrolled(Member member) const {
  const auto seat = seats_.find(member);
  return seat != seats_.end() && !seat->second.peer.is_zero();
}

PeerId BrokerBook::peer_of(Member member) const { return seats_.at(member).peer; }

const std::string& BrokerBook::pod_of(Member member) const { return seats_.at(member).pod; }

std::optional<BrokerBook::Member> BrokerBook::find(PeerId peer) const {
  const auto found = devices_.find(peer);
  if (found == devices_.end()) return std::nullopt;
  return found->second;
}

std::vector<BrokerBook::Member> BrokerBook::members_of(const std::string& name) const {
  const auto pod = pods_.find(name);
  if (pod == pods_.end()) return {};
  return {pod->second.members.begin(), pod->second.members.end()};
}

// If a pod has too many ids, its oldest id without a connected device is released.
bool BrokerBook::own(PeerId peer, const std::string& pod) {
  const auto [owner, fresh] = owners_.try_emplace(peer, pod);
  if (!fresh) return owner->second == pod;
  if (const auto known = pods_.find(pod); known != pods_.end())
    known->second.requests -= kRequestsPerPeerId;
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
