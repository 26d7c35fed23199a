#include "devices/device_factory.h"

#include <algorithm>

#include "base/log.h"
#include "devices/shm_reachability.h"
#include "rdma/shm/shm_device.h"

namespace fairlead {
namespace {

Result<void> add_shm(relay::DeviceRegistry& devices, const config::Config& config) {
  std::unique_ptr<rdma::shm::ShmDevice> device =
      SMC_TRY(rdma::shm::ShmDevice::open(shm_options(devices.peer_id(), config)));
  auto reach = std::make_unique<ShmReachability>(*device);
  return devices.add(std::move(device), std::move(reach));
}

}  // namespace

std::optional<admin::Fact> DeviceFactory::give_to(relay::DeviceRegistry& devices) {
  std::optional<admin::Fact> fact;
  if (config_.devices.shm.enabled) fact = give_shm(devices);
  if (config_.devices.verbs.enabled == config::DeviceUse::kFalse) return fact;
  // After shared memory, which is the shorter way where both lead to a peer.
  rnic_providers_.push_back(
      std::make_unique<RnicProvider>(config_, memlock_, rnic_providers_.empty()));
  devices.add_provider(*rnic_providers_.back(), kDeviceScanInterval);
  return fact;
}

std::optional<admin::Fact> DeviceFactory::give_shm(relay::DeviceRegistry& devices) {
  if (!config_.devices.shm.broker.empty()) {
    shm_providers_.push_back(
        std::make_unique<BrokeredShmProvider>(config_, shm_providers_.empty()));
    BrokeredShmProvider& provider = *shm_providers_.back();
    broker_wait_left_ -= std::min(broker_wait_left_, provider.begin(devices, broker_wait_left_));
    devices.add_provider(provider, kBrokerScanInterval);
    return std::nullopt;
  }
  const Result<void> added = add_shm(devices, config_);
  if (added) return std::nullopt;
  LogEvent(LogLevel::kError, "main", "no_shm_device").field("what", to_string(added.error()));
  devices.set_no_device_reason(
      added.error().code == Errc::kPermission    ? FallbackReason::kShmOpenEperm
      : added.error().code == Errc::kExhausted   ? FallbackReason::kMemory
      : added.error().code == Errc::kMemoryLimit ? FallbackReason::kMemory
                                                 : FallbackReason::kNoRdmaDevice);
  return admin::Fact{"shm_device", admin::FactStatus::kFail, to_string(added.error()),
                     "make devices.shm.directory writable: " + config_.devices.shm.directory};
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
