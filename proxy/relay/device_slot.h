// One device as a worker uses it: its shared receive queue with the buffers posted there, and the
// link groups whose queue pairs it carries.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/ids.h"
#include "event/stream.h"
#include "event/timer_queue.h"
#include "rdma/device.h"
#include "relay/group.h"
#include "relay/peer_table.h"
#include "wire/clc.h"

namespace fairlead::relay {

// The connection for which a device is wanted.
struct Place {
  const event::Stream& companion;  // the TCP connection between the proxies
  std::optional<Gid> peer_gid;     // when the peer has told it
};

struct PnetOfPort {
  std::string id;      // empty: none known
  std::string source;  // "configuration", "kernel table", "route"
};

// How a handshake leads to a device. Main brings one for each kind.
class Reachability {
 public:
  virtual ~Reachability() = default;
  virtual const char* kind() const = 0;  // "shm", "verbs"
  // The device leads to other nodes.
  virtual bool leaves_node() const { return false; }
  // Goes into our Proposals.
  virtual wire::VendorArea vendor_area() const = 0;
  // Server: where the client's queue pairs are on this device; nothing if it cannot be reached.
  virtual std::optional<Gid> client_gid(const wire::Proposal& proposal) const = 0;
  // Client: the GID of an Accept is one of this device.
  virtual bool server_reachable(const Gid& gid) const = 0;
  // Which of the device's ports to speak from, and with which of its GIDs; nothing if none will do.
  // The first that is active, unless a device knows better.
  virtual std::optional<rdma::Port> choose_port(std::span<const rdma::Port> ports,
                                                const Place& place) const;
  // No gateway lies between these GIDs.
  virtual bool direct(const Gid& local, const Gid& peer) const;
  virtual PnetOfPort pnet(const rdma::Port&) const { return {}; }
};

bool usable(const rdma::Port& port);  // active, and has a GID

// Receives posted to the queue of a worker: K·M entries for all links, not K for each of N.
inline constexpr std::uint32_t kReceiveEntries = 512;
inline constexpr std::uint32_t kReceiveLimit = 64;
inline constexpr std::size_t kCompletionsPerPoll = 64;
// Polls of one turn; what is left waits for the next, so that sockets get theirs.
inline constexpr unsigned kPollsPerTurn = 8;

class DeviceSlot {
 public:
  static Result<std::unique_ptr<DeviceSlot>> create(std::unique_ptr<rdma::Device> device,
                                                    std::unique_ptr<Reachability> reachability,
                                                    smc::RmbBudget& budget,
                                                    event::TimerQueue& timers, WorkerStats& stats,
                                                    const smc::GroupTimes& times,
                                                    std::function<TimePoint()> now);
  ~DeviceSlot();

  rdma::Device& device() { return *device_; }
  const Reachability& reachability() const { return *reachability_; }
  const char* kind() const { return reachability_->kind(); }
  GroupResources& resources() { return resources_; }
  PeerTable& peers() { return peers_; }
  // Some port could be used.
  bool active() const;
  std::optional<rdma::Port> choose_port(const Place& place) const {
    return reachability_->choose_port(device_->ports(), place);
  }

  // Takes in what has arrived. True when more may be there.
  bool poll(TimePoint now);
  void flush(TimePoint now);

 private:
  DeviceSlot(std::unique_ptr<rdma::Device> device, std::unique_ptr<Reachability> reachability);
  Result<void> post_receives();
  void take(const rdma::Completion& completion, TimePoint now);
  void take(const rdma::AsyncEvent& event, TimePoint now);

  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<Reachability> reachability_;
  std::unique_ptr<rdma::ProtectionDomain> domain_;
  std::unique_ptr<rdma::RegisteredBuffer> receive_memory_;
  std::unique_ptr<rdma::SharedReceiveQueue> receive_queue_;
  GroupResources resources_;
  PeerTable peers_;
  std::vector<rdma::ReceiveRequest> reposts_;
  bool limit_hit_ = false;
};

}  // namespace fairlead::relay
