// The devices of a worker: adds and removes them, chooses one to offer to a peer, and finds the one
// that reaches a peer. Belongs to the worker's thread.
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

// What uses devices besides link groups.
class DeviceUsers {
 public:
  virtual bool uses(const DeviceSlot& slot) const = 0;
  // Peers that were out of reach may be within reach now, or for another reason.
  virtual void devices_changed() {}

 protected:
  ~DeviceUsers() = default;
};

class DeviceRegistry;

// Finds the devices of one kind. Outlives the registry.
class DeviceProvider {
 public:
  // Adds devices that have appeared, and removes those that have gone.
  virtual void scan(DeviceRegistry& devices) = 0;

 protected:
  ~DeviceProvider() = default;
};

class DeviceRegistry final : public FdHandler {
 public:
  // All arguments outlive the registry. `peer_id` is this worker's. Keeps `shared.devices` up to
  // date.
  DeviceRegistry(const config::Config& config, const PeerId& peer_id, LinkGroupRegistry& groups,
                 GroupResources& shared, DeviceUsers& users);

  const PeerId& peer_id() const { return peer_id_; }

  // If two devices lead to a peer, one that does not leave the node is preferred, then the one
  // added first.
  Result<void> add(std::unique_ptr<rdma::Device> device,
                   std::unique_ptr<Reachability> reachability);
  // Destroys a device that is gone for good. False: link groups or handshakes still use it.
  bool remove(const std::string& name);
  // Watches all present and future devices with `watcher`, which outlives them. Removes devices
  // that cannot be watched.
  void set_watcher(FdWatcher* watcher);
  // Scans with `provider` now, and after every `interval`.
  void add_provider(DeviceProvider& provider, Duration interval);
  // Takes a port out of use, or back, on an operator's request. False if that is not possible.
  bool set_port_state(const std::string& device, PortNumber port, rdma::PortState state);
  // Sets the devices of one kind that exist but cannot be used. Operators see them in rows().
  void set_unusable(const std::string& kind, std::vector<DeviceRow> rows) {
    unusable_[kind] = std::move(rows);
  }
  // Sets why there is no device. Fallback decisions report this reason.
  void set_no_device_reason(FallbackReason reason);

  const std::vector<std::unique_ptr<DeviceSlot>>& slots() const { return slots_; }
  // The reason why other nodes cannot be reached.
  FallbackReason no_device_reason() const;
  // True if a usable port is in our network. A port of another network does not count.
  bool any_in_network() const;

  // The contents of a Proposal: a port, preferably of a device that leaves the node, and the fabric
  // of a device that does not.
  struct Offered {
    DeviceSlot* slot = nullptr;
    rdma::Port port;
    wire::VendorArea vendor;
    bool withheld = false;  // a device was left out because the TCP path is encrypted
  };
  Offered offer_towards(const Place& place) const;
  // The device that reaches the GID of an Accept. The offered device is preferred.
  DeviceSlot* slot_of_server(const Gid& gid, DeviceSlot* offered) const;
  // The sizes of each ring of a connection on that device. If the peer's memory is not addressable,
  // each direction has two rings, one at each end. Each ring then has half the size, so that a peer
  // costs the same memory.
  BufferSizes buffer_sizes(const rdma::Device& device) const;
  // Maximum number of links of a group whose first link begins at that port: smc.max_links if it is
  // set. Otherwise two if another port leads to the same peers, and one if none does. The other
  // port may be down.
  std::uint8_t links_from(const DeviceSlot& slot, const rdma::Port& port) const;
  // The number of links in a Proposal: the maximum over all usable ports.
  std::uint8_t links_offered() const;

  // Processes completions and events that have arrived. True when more may be pending.
  bool poll(TimePoint now);
  bool pending() const;
  // Called before and after the thread sleeps. arm() returns false if something has arrived
  // meanwhile.
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
  DeviceUsers& users_;
  const BufferSizes sizes_;
  FdWatcher* watcher_ = nullptr;
  FallbackReason no_device_ = FallbackReason::kNoRdmaDevice;
  std::map<std::string, std::vector<DeviceRow>> unusable_;  // by kind
  std::vector<std::unique_ptr<event::Timer>> scans_;        // one per provider
  std::vector<std::unique_ptr<DeviceSlot>> slots_;
};

}  // namespace fairlead::relay
