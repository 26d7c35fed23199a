// What the broker knows of one pod: its devices, what it may ask for, and what the broker holds for
// it. A pod is identified by its container id, because the network namespace in which its devices
// listen belongs to that container. One thread; no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "cni/node/broker/broker_shares.h"
#include "cni/node/broker/broker_unread.h"
#include "cni/node/broker/pod_credits.h"
#include "cni/node/broker/pod_probe.h"
#include "cni/node/pods/pod_watch.h"

namespace fairlead::cni::node {

inline constexpr std::size_t kGuestsPerPodMax = 16;   // connected, not registered yet
inline constexpr std::size_t kDevicesPerPodMax = 64;  // workers of the sidecar

class BrokerPod {
 public:
  using Member = int;  // a device: the descriptor of its connection

  // `number`: unique at any time, never 0. The node-wide parts outlive the pod.
  BrokerPod(std::string name, std::uint32_t number, WatchedPod watched, BrokerShares& shares,
            BrokerUnread& unread)
      : name_(std::move(name)),
        number_(number),
        watched_(std::move(watched)),
        share_(shares),
        unread_(unread) {}

  const std::string& name() const { return name_; }  // its container id
  std::uint32_t number() const { return number_; }
  const WatchedPod& watched() const { return watched_; }

  PodProbe& probe() { return probe_; }
  PodCredits& credits() { return credits_; }
  BrokerShares::Share& share() { return share_; }
  BrokerUnread::Records& unread() { return unread_; }

  std::vector<Member> members() const { return {members_.begin(), members_.end()}; }
  // A device is connected. It is a guest until it is registered. Returns the member that has to
  // make room for it, if any: disconnect() it.
  std::optional<Member> connect(Member member) {
    std::optional<Member> leaves;
    // Clients that connect and send nothing must not exclude others of their pod.
    if (guests_.size() >= kGuestsPerPodMax) leaves = guests_.front();
    members_.insert(member);
    guests_.push_back(member);
    return leaves;
  }
  void disconnect(Member member) {
    members_.erase(member);
    std::erase(guests_, member);
  }
  // False at kDevicesPerPodMax.
  bool may_register() const { return members_.size() - guests_.size() < kDevicesPerPodMax; }
  void registered(Member member) { std::erase(guests_, member); }

  // The broker does not serve it until then.
  std::optional<TimePoint> paused_until() const { return paused_until_; }
  void pause(TimePoint until) { paused_until_ = until; }
  void resume() { paused_until_.reset(); }

  // True while records wait until its devices have read others.
  bool records_wait() const { return records_wait_; }
  void set_records_wait(bool wait) { records_wait_ = wait; }

 private:
  const std::string name_;
  const std::uint32_t number_;
  const WatchedPod watched_;
  PodProbe probe_;
  PodCredits credits_;
  BrokerShares::Share share_;
  BrokerUnread::Records unread_;
  std::set<Member> members_;
  std::deque<Member> guests_;  // of the members, the oldest first
  std::optional<TimePoint> paused_until_;
  bool records_wait_ = false;
};

}  // namespace fairlead::cni::node
