// Who is connected to the node's broker, and who may be introduced to whom: the broker's memory and
// its judgement, without sockets or clock.
//
// A pod is known by its container id, because that is what the network namespace stands for in
// which its device listens. A peer id belongs to the pod that named it first, for as long as the
// pod lives: no other pod gets it, also after the broker was restarted.
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
inline constexpr std::size_t kGuestsPerPodMax = 16;    // connected, and have not said who they are
inline constexpr std::size_t kDevicesPerPodMax = 64;   // workers of the sidecar
inline constexpr std::size_t kPeerIdsPerPodMax = 128;  // of a sidecar that is restarted
// What a pod may ask of the broker: each wake-up and each request takes one; when a pod has spent
// them it is not listened to until there is a new one.
inline constexpr double kRequestsPerSecond = 1024;
inline constexpr double kRequestsBurst = 4096;
inline constexpr double kRequestsPerDevice = 16;  // one that is connected: its request ring
inline constexpr double kRequestsPerConnect = 4;  // a channel: memory and two pairs of sockets
// A peer id that the pod has not had before takes as many more: it is written to the file.
inline constexpr double kRequestsPerPeerId = 64;
// What speaking with a device of the pod costs beside: one for each so much processor time, after
// the first. The pod can make it long, by watchers at its end of the socket.
inline constexpr std::chrono::microseconds kTimePerRequest{50};
inline constexpr double kRequestsDebtMax = 512;
// What the buffers of one device that goes may cost, or one buffer that it frees.
inline constexpr int kClosingRequestsMax = 4096;

class BrokerBook {
 public:
  using Member = int;  // the descriptor of its connection

  // False at kBrokeredPodsMax.
  bool add_pod(const std::string& pod);
  // Its members, who are forgotten.
  std::vector<Member> remove_pod(const std::string& pod);
  bool knows_pod(const std::string& pod) const { return pods_.contains(pod); }

  // Takes one request of the pod. Nothing when there was one, else the time until there is. What
  // enroll() takes may have to be waited for here.
  std::optional<Duration> spend(const std::string& pod, TimePoint now);
  // Takes more for a request that has been begun; the next spend() waits for it.
  void charge(const std::string& pod, double requests);
  // It owes more than requests can: to speak with it takes very long. Nobody speaks to it for a
  // while.
  bool shunned(const std::string& pod) const { return pods_.at(pod).requests < -kRequestsDebtMax; }
  // A number for the pod that no other has at the same time, never 0.
  std::uint32_t number_of(const std::string& pod) const { return pods_.at(pod).number; }

  // A device of the pod is connected. The member that has to go for it, if one has:
  // disconnect() it.
  std::optional<Member> connect(const std::string& pod, Member member);
  void disconnect(Member member);
  // kNone, or why not.
  broker::Refusal enroll(Member member, PeerId peer);
  bool enrolled(Member member) const;
  PeerId peer_of(Member member) const;
  const std::string& pod_of(Member member) const;
  std::optional<Member> find(PeerId peer) const;
  bool has_owner(PeerId peer) const { return owners_.contains(peer); }
  std::vector<Member> members_of(const std::string& pod) const;

  std::size_t pod_count() const { return pods_.size(); }
  std::size_t device_count() const { return devices_.size(); }

  // Which ids belong to whom, for the next broker; JSON. Ids of pods that are not known when it is
  // read are kept until forget_strangers().
  struct Ownership {
    PeerId peer;
    std::string pod;
    friend bool operator==(const Ownership&, const Ownership&) = default;
  };
  std::vector<Ownership> ownerships() const;
  void restore(const std::vector<Ownership>& ownerships);
  // Lets go of the ids of pods that were never added.
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
