// The devices that each worker gets: shared memory, then RNICs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "devices/brokered_shm_provider.h"
#include "devices/device_traits.h"
#include "devices/rnic_provider.h"
#include "rdma/verbs/memlock.h"
#include "relay/group/device_registry.h"

namespace fairlead {

class DeviceFactory {
 public:
  // `config` outlives the source, and the source all workers.
  DeviceFactory(const config::Config& config, const DeviceTraits& traits)
      : config_(config), traits_(traits), memlock_(rdma::verbs::memlock_limit_bytes()) {}

  // Before the worker runs. The worker tells what is the matter with RNICs or the broker
  // (DeviceRow), because it may change.
  void give_to(relay::DeviceRegistry& devices);

  // "shm", "shm,verbs", …: what is configured, RNICs on "auto" only when there is one.
  std::string kinds() const;

 private:
  void give_shm(relay::DeviceRegistry& devices);

  const config::Config& config_;
  const DeviceTraits traits_;
  Duration broker_wait_left_ = kWelcomeWaitMax;  // of all workers together
  rdma::verbs::MemlockAccount memlock_;
  std::vector<std::unique_ptr<BrokeredShmProvider>> shm_providers_;  // one a worker
  std::vector<std::unique_ptr<RnicProvider>> rnic_providers_;        // one a worker
};

}  // namespace fairlead
