// Registry of the pods and devices at the node's broker, and of the pairs that it may connect. It
// makes no system calls and has no clock. One thread.
//
// A peer id belongs to the first pod that named it, until the pod ends. No other pod gets it, also
// after a restart of the broker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "broker/message.h"
#include "cni/node/broker/broker_pod.h"

namespace fairlead::cni::node {

inline constexpr std::size_t kBrokeredPodsMax = 1024;
inline constexpr std::size_t kPeerIdsPerPodMax = 128;        // of a sidecar that is restarted
inline constexpr std::ptrdiff_t kHeldGrantsPerPeerMax = 64;  // of one pod

class BrokerBook {
 public:
  using Member = BrokerPod::Member;
  using Pods = std::map<std::string, std::unique_ptr<BrokerPod>>;  // by container id

  // Both outlive it.
  BrokerBook(BrokerShares& shares, BrokerUnread& unread) : shares_(shares), unread_(unread) {}

  // The pod with this name, which is made if it is not known. Null at kBrokeredPodsMax.
  BrokerPod* add_pod(const std::string& name, const WatchedPod& watched);
  // Destroys the pod. Returns its members, which are removed.
  std::vector<Member> remove_pod(BrokerPod& pod);
  // Null if it is not known.
  BrokerPod* find_pod(const std::string& name) const;
  const Pods& pods() const { return pods_; }

  // A device of the pod is connected. Returns the member that has to make room for it, if any:
  // disconnect() it.
  std::optional<Member> connect(BrokerPod& pod, Member member);
  // Its grants are not held any more.
  void disconnect(Member member);
  // kNone, or the reason of the refusal. A new id costs credits of the pod.
  broker::Refusal enroll(Member member, PeerId peer);
  bool enrolled(Member member) const;
  PeerId peer_of(Member member) const { return seats_.at(member).peer; }
  BrokerPod& pod_of(Member member) const { return *seats_.at(member).pod; }
  std::optional<Member> find(PeerId peer) const;
  bool has_owner(PeerId peer) const { return owners_.contains(peer); }
  std::size_t device_count() const { return devices_.size(); }
  std::size_t buffer_count() const { return shares_.buffers(); }

  // Grants to known devices that have not connected yet, because this broker is new.
  struct HeldGrant {
    Member owner;
    broker::BufferId buffer;
  };
  // False at a limit.
  bool hold_grant(PeerId to, const HeldGrant& grant);
  std::vector<HeldGrant> take_grants(PeerId to);

  // Owners of peer ids, for the next broker; JSON. Ids of unknown pods are kept until
  // forget_strangers().
  struct Ownership {
    PeerId peer;
    std::string pod;
    friend bool operator==(const Ownership&, const Ownership&) = default;
  };
  std::vector<Ownership> ownerships() const;
  void restore(const std::vector<Ownership>& ownerships);
  // Forgets the ids of pods that were never added.
  void forget_strangers();
  // Grows whenever ownerships() changes.
  std::uint64_t changes() const { return changes_; }

 private:
  struct Seat {
    BrokerPod* pod;
    PeerId peer;  // zero for a guest
  };
  bool own(PeerId peer, const std::string& pod);
  void disown(const std::string& pod);

  BrokerShares& shares_;
  BrokerUnread& unread_;
  Pods pods_;
  std::map<Member, Seat> seats_;
  std::map<PeerId, Member> devices_;
  std::multimap<PeerId, HeldGrant> held_grants_;
  std::map<PeerId, std::string> owners_;
  std::map<std::string, std::deque<PeerId>> ids_;  // by pod, the oldest first
  std::uint64_t changes_ = 0;
  std::uint32_t pods_made_ = 0;
};

}  // namespace fairlead::cni::node
