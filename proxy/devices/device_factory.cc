#include "devices/device_factory.h"

#include <algorithm>

namespace fairlead {

void DeviceFactory::give_to(relay::DeviceRegistry& devices) {
  if (config_.smc.enabled && config_.devices.shm.enabled) give_shm(devices);
  if (config_.devices.verbs.enabled == config::DeviceUse::kFalse) return;
  // After shared memory, which is the shorter way where both lead to a peer.
  rnic_providers_.push_back(
      std::make_unique<RnicProvider>(config_, traits_, memlock_, rnic_providers_.empty()));
  devices.add_provider(*rnic_providers_.back(), kDeviceScanInterval);
}

void DeviceFactory::give_shm(relay::DeviceRegistry& devices) {
  shm_providers_.push_back(
      std::make_unique<BrokeredShmProvider>(config_, traits_, shm_providers_.empty()));
  BrokeredShmProvider& provider = *shm_providers_.back();
  broker_wait_left_ -= std::min(broker_wait_left_, provider.begin(devices, broker_wait_left_));
  devices.add_provider(provider, kBrokerScanInterval);
}

std::string DeviceFactory::kinds() const {
  using Use = config::DeviceUse;
  const Use use = config_.devices.verbs.enabled;
  const bool verbs =
      use == Use::kTrue || (use == Use::kAuto && !rdma::verbs::device_names().empty());
  if (!config_.devices.shm.enabled) return verbs ? "verbs" : "none";
  return verbs ? "shm,verbs" : "shm";
}

}  // namespace fairlead
