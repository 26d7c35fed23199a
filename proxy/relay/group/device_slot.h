// One device as a worker uses it: the resources that all link groups share on it, and the dispatch
// of what arrives to the groups whose queue pairs it carries.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/paced_lines.h"
#include "event/timer_queue.h"
#include "rdma/device.h"
#include "relay/group/group.h"
#include "relay/group/peer_table.h"
#include "relay/group/reachability.h"

namespace fairlead::relay {

inline constexpr std::size_t kCompletionsPerPoll = 64;
// Polls per turn. Other completions wait for the next turn, so that sockets get their share.
inline constexpr unsigned kPollsPerTurn = 8;

// Log lines of one kind about faults on one device, per kFaultLineInterval.
inline constexpr unsigned kFaultLines = 10;
inline constexpr Duration kFaultLineInterval = std::chrono::seconds(10);

class DeviceSlot {
 public:
  // `groups` is the worker's table.
  static Result<std::unique_ptr<DeviceSlot>> create(std::unique_ptr<rdma::Device> device,
                                                    std::unique_ptr<Reachability> reachability,
                                                    PeerTable& groups, WorkerStats& stats,
                                                    MemoryBudget& budget);
  ~DeviceSlot();

  rdma::Device& device() { return *device_; }
  const Reachability& reachability() const { return *reachability_; }
  const char* kind() const { return reachability_->kind(); }
  LinkDevice& link_device() { return own_; }
  // True if a port is usable.
  bool active() const;
  // True if a usable port is in our network.
  bool in_network() const;
  std::optional<rdma::Port> choose_port(const Place& place) const {
    return reachability_->choose_port(device_->ports(), place);
  }

  // True if a port is usable, but the device is withheld from that place (Reachability::withheld).
  bool withheld(const Place& place) const { return active() && reachability_->withheld(place); }

  // Processes what has arrived. True when more may be pending.
  bool poll(TimePoint now);

 private:
  DeviceSlot(std::unique_ptr<rdma::Device> device, std::unique_ptr<Reachability> reachability,
             PeerTable& groups, WorkerStats& stats);
  void take(const rdma::Completion& completion, TimePoint now);
  void take(const rdma::AsyncEvent& event, TimePoint now);
  // Fails the link because this device or the peer's device has refused a packet.
  void refuse(LinkPlace place, const char* why, TimePoint now);
  void report(const rdma::PeerFault& fault, TimePoint now);

  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<Reachability> reachability_;
  LinkDevice own_;
  std::unique_ptr<rdma::ProtectionDomain> receive_domain_;
  std::unique_ptr<ReceivePool> shared_pool_;
  PeerTable& groups_;
  WorkerStats& stats_;
  LinePace fault_pace_{kFaultLines, kFaultLineInterval};
  LinePace receives_pace_{kFaultLines, kFaultLineInterval};
};

}  // namespace fairlead::relay
