// The devices that each worker gets: shared memory, then RNICs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "admin/sources.h"
#include "config/config.h"
#include "devices/brokered_shm_provider.h"
#include "devices/rnic_provider.h"
#include "rdma/verbs/memlock.h"
#include "relay/group/device_registry.h"

namespace fairlead {

class DeviceFactory {
 public:
  // `config` outlives the source, and the source all workers.
  explicit DeviceFactory(const config::Config& config)
      : config_(config), memlock_(rdma::verbs::memlock_limit_bytes()) {}

  // Before the worker runs. A fact when shared memory was wanted and is not available; what is the
  // matter with RNICs, or with the broker, is told by the worker (DeviceRow), because it may
  // change.
  std::optional<admin::Fact> give_to(relay::DeviceRegistry& devices);

  // "shm", "shm,verbs", …: what is configured, RNICs on "auto" only when there is one.
  std::string kinds() const;

 private:
  std::optional<admin::Fact> give_shm(relay::DeviceRegistry& devices);

  const config::Config& config_;
  Duration broker_wait_left_ = kWelcomeWaitMax;  // of all workers together
  rdma::verbs::MemlockAccount memlock_;
  std::vector<std::unique_ptr<BrokeredShmProvider>> shm_providers_;  // one a worker
  std::vector<std::unique_ptr<RnicProvider>> rnic_providers_;        // one a worker
};

}  // namespace fairlead
