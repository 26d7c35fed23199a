#include "relay/group/device_registry.h"

#include <algorithm>

#include "base/log.h"
#include "smc/connection/cursor.h"

namespace fairlead::relay {
namespace {

constexpr std::uint8_t kLinksUsual = 2;  // where ports allow it and smc.max_links is not set

// A group keeps its maximum number of links for life. So a port that is down counts too: when it
// comes up, it gives the group its second link.
bool may_carry_links(const rdma::Port& port) {
  const bool down = port.state != rdma::PortState::kActive;
  return port.fault == rdma::PortFault::kNone && (down || !port.gid.is_zero());
}

}  // namespace

DeviceRegistry::DeviceRegistry(const config::Config& config, const PeerId& peer_id,
                               LinkGroupRegistry& groups, GroupResources& shared,
                               DeviceUsers& users)
    : config_(config),
      peer_id_(peer_id),
      groups_(groups),
      shared_(shared),
      users_(users),
      sizes_{smc::element_code(config.buffers.size), smc::element_code(config.buffers.size_min)} {}

Result<void> DeviceRegistry::add(std::unique_ptr<rdma::Device> device,
                                 std::unique_ptr<Reachability> reachability) {
  const bool farther = reachability->leaves_node();
  std::unique_ptr<DeviceSlot> slot =
      SMC_TRY(DeviceSlot::create(std::move(device), std::move(reachability), groups_.peers(),
                                 *shared_.stats, *shared_.budget));
  if (watcher_ != nullptr) SMC_TRY(slot->device().set_watcher(watcher_));
  const auto place = std::find_if(slots_.begin(), slots_.end(), [&](const auto& other) {
    return !farther && other->reachability().leaves_node();
  });
  LinkDevice& added = (*slots_.insert(place, std::move(slot)))->link_device();
  list();
  // Existing groups may have waited for the device.
  for (const rdma::Port& port : added.device->ports())
    groups_.peers().for_each([&](Group& group) {
      group.handle_port(added, port.number, Group::PortChange::kUp, shared_.now());
    });
  users_.devices_changed();
  return {};
}

void DeviceRegistry::set_no_device_reason(FallbackReason reason) {
  if (std::exchange(no_device_, reason) != reason) users_.devices_changed();
}

void DeviceRegistry::list() {
  shared_.devices.clear();
  for (const std::unique_ptr<DeviceSlot>& slot : slots_)
    shared_.devices.push_back(&slot->link_device());
}

bool DeviceRegistry::remove(const std::string& name) {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const auto& slot) { return slot->device().name() == name; });
  if (found == slots_.end()) return true;
  DeviceSlot* slot = found->get();
  bool used = users_.uses(*slot);
  groups_.peers().for_each(
      [&](Group& group) { used = used || group.transport().uses(slot->link_device()); });
  if (used) return false;
  slots_.erase(found);
  list();
  return true;
}

void DeviceRegistry::set_watcher(FdWatcher* watcher) {
  watcher_ = watcher;
  // No group exists yet, so a device that cannot be watched can still be removed.
  std::erase_if(slots_, [&](const std::unique_ptr<DeviceSlot>& slot) {
    const Result<void> watched = slot->device().set_watcher(watcher);
    if (watched || watcher == nullptr) return false;
    LogEvent(LogLevel::kError, "relay.worker", "device_not_watched")
        .field("device", slot->device().name())
        .field("what", to_string(watched.error()));
    return true;
  });
  list();
}

void DeviceRegistry::add_provider(DeviceProvider& provider, Duration interval) {
  const std::size_t index = scans_.size();
  const auto scan = [this, &provider, interval, index] {
    provider.scan(*this);
    scans_[index]->set(shared_.now() + interval);
  };
  scans_.push_back(std::make_unique<event::Timer>(*shared_.timers, scan));
  scan();
}

bool DeviceRegistry::set_port_state(const std::string& device, PortNumber port,
                                    rdma::PortState state) {
  for (const std::unique_ptr<DeviceSlot>& slot : slots_)
    if (slot->device().name() == device) return slot->device().take_port(port, state);
  return false;
}

FallbackReason DeviceRegistry::no_device_reason() const {
  std::optional<FallbackReason> reason;
  for (const std::unique_ptr<DeviceSlot>& slot : slots_) {
    if (!slot->reachability().leaves_node()) continue;
    if (slot->active()) {
      // A device is usable and in our network, but does not lead to the peer.
      if (slot->in_network()) return FallbackReason::kNoRdmaDevice;
      if (!reason) reason = FallbackReason::kNoPnet;
      continue;
    }
    // A port that is down is a weaker reason than one that is up and lacks something.
    for (const rdma::Port& port : slot->device().ports())
      if (const std::optional<PortObstacle> why = obstacle(port);
          why && (!reason || reason == FallbackReason::kPortDown))
        reason = why->reason;
  }
  return reason.value_or(no_device_);
}

bool DeviceRegistry::any_in_network() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const auto& slot) { return slot->in_network(); });
}

DeviceRegistry::Offered DeviceRegistry::offer_towards(const Place& place) const {
  Offered offered;
  for (const std::unique_ptr<DeviceSlot>& slot : slots_) {
    if (!slot->active()) continue;
    if (slot->withheld(place)) {
      offered.withheld = true;
      continue;
    }
    if (offered.vendor == wire::VendorArea{}) offered.vendor = slot->reachability().vendor_area();
    const bool farther = slot->reachability().leaves_node();
    if (offered.slot != nullptr && (!farther || offered.slot->reachability().leaves_node()))
      continue;
    if (const std::optional<rdma::Port> port = slot->choose_port(place)) {
      offered.slot = slot.get();
      offered.port = *port;
    }
  }
  return offered;
}

DeviceSlot* DeviceRegistry::slot_of_server(const Gid& gid, DeviceSlot* offered) const {
  if (offered != nullptr && offered->active() && offered->reachability().server_reachable(gid))
    return offered;
  for (const std::unique_ptr<DeviceSlot>& slot : slots_)
    if (slot->active() && slot->reachability().server_reachable(gid)) return slot.get();
  return nullptr;
}

BufferSizes DeviceRegistry::buffer_sizes(const rdma::Device& device) const {
  BufferSizes sizes = sizes_;
  if (!device.capabilities().remote_memory_addressable && sizes.wanted_code > sizes.least_code)
    --sizes.wanted_code;
  return sizes;
}

std::uint8_t DeviceRegistry::links_from(const DeviceSlot& slot, const rdma::Port& port) const {
  const unsigned wanted = config_.smc.max_links;
  if (wanted != 0) return static_cast<std::uint8_t>(wanted);
  std::size_t ports = 0;
  for (const std::unique_ptr<DeviceSlot>& other : slots_)
    for (const rdma::Port& candidate : other->device().ports())
      if (may_carry_links(candidate) &&
          alike(slot.reachability(), port, other->reachability(), candidate))
        ++ports;
  return static_cast<std::uint8_t>(std::clamp<std::size_t>(ports, 1, kLinksUsual));
}

std::uint8_t DeviceRegistry::links_offered() const {
  std::uint8_t links = 1;
  for (const std::unique_ptr<DeviceSlot>& slot : slots_)
    for (const rdma::Port& port : slot->device().ports())
      if (usable(port)) links = std::max(links, links_from(*slot, port));
  return links;
}

bool DeviceRegistry::poll(TimePoint now) {
  bool more = false;
  for (const std::unique_ptr<DeviceSlot>& slot : slots_) more = slot->poll(now) || more;
  return more;
}

bool DeviceRegistry::pending() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const auto& slot) { return slot->device().pending(); });
}

bool DeviceRegistry::arm() {
  bool quiet = true;
  for (const std::unique_ptr<DeviceSlot>& slot : slots_) quiet = slot->device().arm() && quiet;
  return quiet;
}

void DeviceRegistry::disarm() {
  for (const std::unique_ptr<DeviceSlot>& slot : slots_) slot->device().disarm();
}

void DeviceRegistry::ring_doorbells() {
  for (const std::unique_ptr<DeviceSlot>& slot : slots_) slot->device().ring_doorbells();
}

void DeviceRegistry::handle_readable(int fd) {
  for (const std::unique_ptr<DeviceSlot>& slot : slots_) slot->device().handle_readable(fd);
}

std::vector<DeviceRow> DeviceRegistry::rows() const {
  std::vector<DeviceRow> rows;
  for (const std::unique_ptr<DeviceSlot>& slot : slots_)
    for (const rdma::Port& port : slot->device().ports()) rows.push_back(row(*slot, port));
  for (const auto& [kind, unusable] : unusable_)
    rows.insert(rows.end(), unusable.begin(), unusable.end());
  return rows;
}

DeviceRow DeviceRegistry::row(DeviceSlot& slot, const rdma::Port& port) const {
  DeviceRow row;
  row.name = slot.device().name();
  row.kind = slot.kind();
  row.port = port.number.value;
  const bool up = port.state == rdma::PortState::kActive;
  row.state = up ? "active" : "down";
  if (!port.gid.is_zero()) row.gid = to_string(port.gid);
  row.gid_source = slot.reachability().gid_source(port);
  row.mac = to_string(port.mac);
  PnetOfPort pnet = slot.reachability().pnet(port);
  if (pnet.id.empty() && !config_.pnet.id.empty()) pnet = {config_.pnet.id, "configuration"};
  row.pnet = pnet.id;
  row.pnet_source = pnet.source;
  row.mtu_bytes = 128U << static_cast<unsigned>(port.mtu);
  if (const std::optional<PortObstacle> why = obstacle(port)) {
    if (why->reason == FallbackReason::kRnicUnsupported) row.state = kDeviceUnsupported;
    row.reason = fallback_info(why->reason).name;
    row.detail = why->sentence;
  } else if (!slot.reachability().in_network(port)) {
    row.reason = fallback_info(FallbackReason::kNoPnet).name;
    row.detail = "the port is not in this pod's network (PNET), and is not used";
  }
  return row;
}

}  // namespace fairlead::relay
