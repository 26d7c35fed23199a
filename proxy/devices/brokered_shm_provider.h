// Gives a worker its shared-memory device by way of the node's broker: as soon as there is one, and
// looks after the link to it from then on. Devices that are connected with each other need no
// broker, so a loss is felt by new pairs only.
#pragma once

#include <memory>
#include <string>

#include "config/config.h"
#include "devices/device_traits.h"
#include "rdma/shm/connect/shm_broker_connector.h"
#include "rdma/shm/shm_device.h"
#include "relay/group/device_registry.h"

namespace fairlead {

inline constexpr Duration kBrokerScanInterval = std::chrono::seconds(1);
// At the start the worker waits for a broker that is there, so that the first connection finds a
// device. The broker looks every 100 ms; what all workers wait for together is bounded.
inline constexpr Duration kWelcomeWaitMax = std::chrono::milliseconds(400);

class BrokeredShmProvider final : public relay::DeviceProvider {
 public:
  // `config` outlives the provider, and the provider the worker's devices. Of several workers'
  // providers, which all see the same, one speaks in the log.
  BrokeredShmProvider(const config::Config& config, const DeviceTraits& traits, bool speaks)
      : config_(config), traits_(traits), speaks_(speaks) {}

  // Before the worker runs. Waits up to `wait_max`, and returns how long it has waited.
  Duration begin(relay::DeviceRegistry& devices, Duration wait_max);
  // On the worker's thread. Never waits.
  void scan(relay::DeviceRegistry& devices) override;

 private:
  rdma::shm::ShmDevice* device_of(relay::DeviceRegistry& devices) const;
  void tend(relay::DeviceRegistry& devices, rdma::shm::ShmDevice& device);
  void open_connector(relay::DeviceRegistry& devices);
  void open_device(relay::DeviceRegistry& devices);
  void found(relay::DeviceRegistry& devices);
  void missing(relay::DeviceRegistry& devices, const std::string& trouble);

  const config::Config& config_;
  const DeviceTraits traits_;
  bool speaks_;
  std::unique_ptr<rdma::shm::BrokerConnector> connector_;  // until a device has it
  std::string told_;  // the last trouble that was told, "-" for none
};

}  // namespace fairlead
