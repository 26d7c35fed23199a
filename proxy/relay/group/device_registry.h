// The devices of a worker: how they come and go, which of them is offered to a peer, and which
// leads to one. Belongs to the worker's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/snapshot.h"
#include "config/config.h"
#include "event/timer_queue.h"
#include "rdma/device.h"
#include "relay/group/device_slot.h"
#include "relay/group/group_resources.h"
#include "relay/group/link_group_registry.h"
#include "relay/group/reachability.h"

namespace fairlead::relay {

// Who may refer to a device beside link groups.
class DeviceUsers {
 public:
  virtual bool uses(const DeviceSlot& slot) const = 0;

 protected:
  ~DeviceUsers() = default;
};

class DeviceRegistry;

// Finds the devices of one kind. Outlives the registry.
class DeviceProvider {
 public:
  // Adds devices that have come, and removes those that have gone.
  virtual void scan(DeviceRegistry& devices) = 0;

 protected:
  ~DeviceProvider() = default;
};

class DeviceRegistry final : public FdHandler {
 public:
  // All outlive the registry. `peer_id`: of this worker. Keeps `shared.devices`.
  DeviceRegistry(const config::Config& config, const PeerId& peer_id, LinkGroupRegistry& groups,
                 GroupResources& shared, const DeviceUsers& users);

  const PeerId& peer_id() const { return peer_id_; }

  // Where two lead to a peer, one that does not leave the node is preferred, then the earlier one.
  Result<void> add(std::unique_ptr<rdma::Device> device,
                   std::unique_ptr<Reachability> reachability);
  // Destroys a device that is gone for good. False while link groups or handshakes use it.
  bool remove(const std::string& name);
  // Of all devices, now and later; outlives them.
  void set_watcher(FdWatcher* watcher);
  // It scans now, and every `interval`.
  void add_provider(DeviceProvider& provider, Duration interval);
  // An operator takes a port out of use, or back. False where that cannot be done.
  bool set_port_state(const std::string& device, PortNumber port, rdma::PortState state);
  // Devices of one kind that are there, but cannot be used; for people.
  void set_unusable(const std::string& kind, std::vector<DeviceRow> rows) {
    unusable_[kind] = std::move(rows);
  }
  // Why there is no device; for the decisions that follow from it.
  void set_no_device_reason(FallbackReason reason) { no_device_ = reason; }

  const std::vector<std::unique_ptr<DeviceSlot>>& slots() const { return slots_; }
  // Why other nodes cannot be reached.
  FallbackReason no_device_reason() const;
  // A port of another network is as good as none.
  bool any_in_network() const;

  // What a Proposal says: the port of a device that leaves the node, where there is one, and the
  // fabric of the one that does not.
  struct Offered {
    DeviceSlot* slot = nullptr;
    rdma::Port port;
    wire::VendorArea vendor;
    bool withheld = false;  // a device was left out: the path there is encrypted
  };
  Offered offer_towards(const Place& place) const;
  // The device that reaches the GID of an Accept: the offered one, if it does.
  DeviceSlot* slot_of_server(const Gid& gid, DeviceSlot* offered) const;
  // Of each ring of a connection on that device. Where the peer's memory is not addressable, a
  // direction has two, one at each end: each has half the size, and what a peer costs stays the
  // same.
  BufferSizes buffer_sizes(const rdma::Device& device) const;
  // The most links of a group whose first one begins at that port: smc.max_links if it is set.
  // Otherwise two if another port leads to the same peers, and one if none does. The other port may
  // be down.
  std::uint8_t links_from(const DeviceSlot& slot, const rdma::Port& port) const;
  // What a Proposal offers: the most of any port.
  std::uint8_t links_offered() const;

  // Takes in what has arrived. True when more may be there.
  bool poll(TimePoint now);
  bool pending() const;
  // Before and after the thread sleeps. False: something has arrived meanwhile.
  bool arm();
  void disarm();
  void ring_doorbells();
  void handle_readable(int fd) override;

  std::vector<DeviceRow> rows() const;

 private:
  void list();
  DeviceRow row(DeviceSlot& slot, const rdma::Port& port) const;

  const config::Config& config_;
  const PeerId& peer_id_;
  LinkGroupRegistry& groups_;
  GroupResources& shared_;
  const DeviceUsers& users_;
  const BufferSizes sizes_;
  FdWatcher* watcher_ = nullptr;
  FallbackReason no_device_ = FallbackReason::kNoRdmaDevice;
  std::map<std::string, std::vector<DeviceRow>> unusable_;  // by kind
  std::vector<std::unique_ptr<event::Timer>> scans_;        // one a provider
  std::vector<std::unique_ptr<DeviceSlot>> slots_;
};

}  // namespace fairlead::relay
