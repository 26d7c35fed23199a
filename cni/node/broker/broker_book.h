// Registry of the devices at the node's broker and of the pairs that it may connect. Pure: no
// sockets, no clock.
//
// A pod is identified by its container id, because the network namespace in which its device
// listens belongs to that container. A peer id belongs to the first pod that named it, until the
// pod ends. No other pod gets it, also after a restart of the broker.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "broker/message.h"

namespace fairlead::cni::node {

inline constexpr std::size_t kBrokeredPodsMax = 1024;
inline constexpr std::size_t kGuestsPerPodMax = 16;    // connected, but not registered yet
inline constexpr std::size_t kDevicesPerPodMax = 64;   // workers of the sidecar
inline constexpr std::size_t kPeerIdsPerPodMax = 128;  // enough for restarts of the sidecar
// Rate limit of a pod: each wake-up and each request takes one credit. The broker does not serve a
// pod without credits.
inline constexpr double kRequestsPerSecond = 1024;
inline constexpr double kRequestsBurst = 4096;
inline constexpr double kRequestsPerDevice = 16;  // of a connection: its request ring
inline constexpr double kRequestsPerConnect = 4;  // of a channel: memory and two pairs of sockets
// Additional cost of a new peer id of the pod, because it is written to the file.
inline constexpr double kRequestsPerPeerId = 64;
// Additional cost of system calls on the socket of a device: one credit for each such period of
// processor time after the first. Watchers at the pod's end can make the calls slow.
inline constexpr std::chrono::microseconds kTimePerRequest{50};
inline constexpr double kRequestsDebtMax = 512;
// Maximum cost of the buffers of one disconnected device, or of one freed buffer.
inline constexpr int kClosingRequestsMax = 4096;

class BrokerBook {
 public:
  using Member = int;  // the descriptor of its connection

  // False at kBrokeredPodsMax.
  bool add_pod(const std::string& pod);
  // Returns the pod's members, which are removed.
  std::vector<Member> remove_pod(const std::string& pod);
  bool knows_pod(const std::string& pod) const { return pods_.contains(pod); }

  // Takes one credit of the pod. Empty on success, else the time until there is a credit. A new
  // peer id of enroll() may cause a wait here.
  std::optional<Duration> spend(const std::string& pod, TimePoint now);
  // Takes further credits for a request that has begun; the next spend() waits for them.
  void charge(const std::string& pod, double requests);
  // True if the pod owes more than requests alone can cost, because its system calls take very
  // long. The broker sends it nothing for a while.
  bool shunned(const std::string& pod) const { return pods_.at(pod).requests < -kRequestsDebtMax; }
  // The number of the pod: unique among present pods, never 0.
  std::uint32_t number_of(const std::string& pod) const { return pods_.at(pod).number; }

  // A device of the pod is connected. Returns a member that must make room for it, if any: call
  // disconnect() for that one.
  std::optional<Member> connect(const std::string& pod, Member member);
  void disconnect(Member member);
  // kNone, or the reason of the refusal.
  broker::Refusal enroll(Member member, PeerId peer);
  bool enrolled(Member member) const;
  PeerId peer_of(Member member) const;
  const std::string& pod_of(Member member) const;
  std::optional<Member> find(PeerId peer) const;
  bool has_owner(PeerId peer) const { return owners_.contains(peer); }
  std::vector<Member> members_of(const std::string& pod) const;

  std::size_t pod_count() const { return pods_.size(); }
  std::size_t device_count() const { return devices_.size(); }

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
  struct Pod {
    std::uint32_t number = 0;
    std::set<Member> members;
    std::deque<Member> guests;  // of the members, the oldest first
    double requests = kRequestsBurst;
    std::optional<TimePoint> counted_at;
  };
  struct Seat {
    std::string pod;
    PeerId peer;  // zero for a guest
  };
  bool own(PeerId peer, const std::string& pod);
  void disown(const std::string& pod);

  std::map<std::string, Pod> pods_;
  std::map<Member, Seat> seats_;
  std::map<PeerId, Member> devices_;
  std::map<PeerId, std::string> owners_;
  std::map<std::string, std::deque<PeerId>> ids_;  // by pod, the oldest first
  std::uint64_t changes_ = 0;
  std::uint32_t pods_made_ = 0;
};

}  // namespace fairlead::cni::node
