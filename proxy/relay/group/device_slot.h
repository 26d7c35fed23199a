// One device as a worker uses it: what all link groups share on it, and what arrives for those
// whose queue pairs it carries.
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
// Polls of one turn; what is left waits for the next, so that sockets get theirs.
inline constexpr unsigned kPollsPerTurn = 8;

// Lines about what peers did wrong on one device, in kFaultLineInterval.
inline constexpr unsigned kFaultLines = 10;
inline constexpr Duration kFaultLineInterval = std::chrono::seconds(10);

class DeviceSlot {
 public:
  // `groups` are those of the worker.
  static Result<std::unique_ptr<DeviceSlot>> create(std::unique_ptr<rdma::Device> device,
                                                    std::unique_ptr<Reachability> reachability,
                                                    PeerTable& groups, WorkerStats& stats,
                                                    MemoryBudget& budget);
  ~DeviceSlot();

  rdma::Device& device() { return *device_; }
  const Reachability& reachability() const { return *reachability_; }
  const char* kind() const { return reachability_->kind(); }
  LinkDevice& link_device() { return own_; }
  // Some port could be used.
  bool active() const;
  // … and is in our network.
  bool in_network() const;
  std::optional<rdma::Port> choose_port(const Place& place) const {
    return reachability_->choose_port(device_->ports(), place);
  }

  // Up, but not for that place (Reachability::withheld).
  bool withheld(const Place& place) const { return active() && reachability_->withheld(place); }

  // Takes in what has arrived. True when more may be there.
  bool poll(TimePoint now);

 private:
  DeviceSlot(std::unique_ptr<rdma::Device> device, std::unique_ptr<Reachability> reachability,
             PeerTable& groups, WorkerStats& stats);
  void take(const rdma::Completion& completion, TimePoint now);
  void take(const rdma::AsyncEvent& event, TimePoint now);
  // The link fails because this device or the peer's has refused a packet.
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
