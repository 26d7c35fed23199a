// The devices of a worker: which of them is offered, what is told of them, and how they come and
// go.

#include <algorithm>

#include "base/assert.h"
#include "base/log.h"
#include "relay/worker.h"

namespace fairlead::relay {

void Worker::set_device_watcher(FdWatcher* watcher) {
  watcher_ = watcher;
  // Before the first group: who cannot be watched can still go.
  std::erase_if(slots_, [&](const std::unique_ptr<DeviceSlot>& slot) {
    const Result<void> watched = slot->device().set_watcher(watcher);
    if (watched || watcher == nullptr) return false;
    LogEvent(LogLevel::kError, "relay.worker", "device_not_watched")
        .field("device", slot->device().name())
        .field("what", to_string(watched.error()));
    return true;
  });
  list_devices();
}

void Worker::look_for_devices(std::function<void(Worker&)> look, Duration interval) {
  Looker& looker = *lookers_.emplace_back(std::make_unique<Looker>());
  looker.look = std::move(look);
  looker.interval = interval;
  looker.timer.emplace(timers_, [this, &looker] {
    looker.look(*this);
    looker.timer->set(network_.now() + looker.interval);
  });
  looker.look(*this);
  looker.timer->set(network_.now() + looker.interval);
}

bool Worker::remove_device(const std::string& name) {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const auto& slot) { return slot->device().name() == name; });
  if (found == slots_.end()) return true;
  DeviceSlot* slot = found->get();
  const auto uses = [&](const auto& entry) { return entry.second->uses(*slot); };
  bool used = std::any_of(sessions_.begin(), sessions_.end(), uses);
  peers_.for_each(
      [&](Group& group) { used = used || group.transport().uses(slot->link_device()); });
  if (used) return false;
  slots_.erase(found);
  list_devices();
  return true;
}

bool Worker::take_port(const std::string& device, PortNumber port, rdma::PortState state) {
  for (const std::unique_ptr<DeviceSlot>& slot : slots_)
    if (slot->device().name() == device) return slot->device().take_port(port, state);
  return false;
}

FallbackReason Worker::no_device_reason() const {
  std::optional<FallbackReason> reason;
  for (const std::unique_ptr<DeviceSlot>& slot : slots_) {
    if (!slot->reachability().leaves_node()) continue;
    if (slot->active()) {
      // One that is well and in our network does not lead there.
      if (slot->in_network()) return FallbackReason::kNoRdmaDevice;
      if (!reason) reason = FallbackReason::kNoPnet;
      continue;
    }
    // A port that is down says less than one that is up and lacks something.
    for (const rdma::Port& port : slot->device().ports())
      if (const std::optional<PortObstacle> why = obstacle(port);
          why && (!reason || reason == FallbackReason::kPortDown))
        reason = why->reason;
  }
  return reason.value_or(no_device_);
}

bool Worker::any_active_slot() const {
  // A port of another network is as good as none.
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const auto& slot) { return slot->in_network(); });
}

Worker::Offered Worker::offer_towards(const Place& place) const {
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

WorkerSnapshot Worker::snapshot(const SnapshotRequest& request) {
  const TimePoint now = network_.now();
  WorkerSnapshot snapshot;
  snapshot.worker = settings_.index;
  for (const auto& [number, session] : sessions_) {
    if (snapshot.connections.size() >= request.connections_max) break;
    snapshot.connections.push_back(session->row(now));
    snapshot.connections.back().worker = settings_.index;
  }
  peers_.for_each(
      [&](Group& group) { snapshot.link_groups.push_back(group.row(settings_.index, now)); });
  for (const std::unique_ptr<DeviceSlot>& slot : slots_) {
    for (const rdma::Port& port : slot->device().ports())
      snapshot.devices.push_back(device_row(*slot, port));
  }
  for (const auto& [kind, rows] : unusable_devices_)
    snapshot.devices.insert(snapshot.devices.end(), rows.begin(), rows.end());
  if (request.decisions) snapshot.decisions = decisions_.rows();
  return snapshot;
}

DeviceRow Worker::device_row(DeviceSlot& slot, const rdma::Port& port) const {
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
  if (pnet.id.empty() && !config().pnet.id.empty()) pnet = {config().pnet.id, "configuration"};
  row.pnet = pnet.id;
  row.pnet_source = pnet.source;
  row.mtu_bytes = 128U << static_cast<unsigned>(port.mtu);
  if (const std::optional<PortObstacle> why = obstacle(port)) {
    if (why->reason == FallbackReason::kRnicUnsupported) row.state = kDeviceUnsupported;
    row.reason = fallback_info(why->reason).name;
    row.detail = why->sentence;
  }
  return row;
}

}  // namespace fairlead::relay
