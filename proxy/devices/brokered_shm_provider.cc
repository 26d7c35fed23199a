#include "devices/brokered_shm_provider.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "devices/shm_reachability.h"

namespace fairlead {

using rdma::shm::BrokerConnector;
using rdma::shm::ShmDevice;
using State = BrokerConnector::State;

namespace {

static_assert(config::kBrokerNameCharsMax == broker::kSocketNameCharsMax);

constexpr const char* kNoTrouble = "-";
constexpr const char* kHint =
    "check that fairlead-node runs on this node: it is the broker and connects to the proxy";

}  // namespace

Duration BrokeredShmProvider::begin(relay::DeviceRegistry& devices, Duration wait_max) {
  const auto start = std::chrono::steady_clock::now();
  open_connector(devices);
  if (connector_) connector_->wait_registered(wait_max);
  scan(devices);
  return std::chrono::steady_clock::now() - start;
}

void BrokeredShmProvider::scan(relay::DeviceRegistry& devices) {
  if (ShmDevice* const device = device_of(devices)) return tend(devices, *device);
  if (!connector_) open_connector(devices);
  if (!connector_) return;
  switch (connector_->poll_registration()) {
    case State::kRegistering:
      return;
    case State::kRegistered:
      return open_device(devices);
    case State::kListening:
    case State::kDown:
    case State::kFabricChanged:
      missing(devices, connector_->error_text());
  }
}

ShmDevice* BrokeredShmProvider::device_of(relay::DeviceRegistry& devices) const {
  const auto& slots = devices.slots();
  const auto slot = std::find_if(slots.begin(), slots.end(), [](const auto& one) {
    return !one->reachability().leaves_node();
  });
  return slot == slots.end() ? nullptr : static_cast<ShmDevice*>(&(*slot)->device());
}

void BrokeredShmProvider::tend(relay::DeviceRegistry& devices, ShmDevice& device) {
  const auto& connector = static_cast<const BrokerConnector&>(device.connector());
  switch (connector.state()) {
    case State::kRegistering:
      return;
    case State::kRegistered:
      return found(devices);
    case State::kListening:
    case State::kDown:
      return missing(devices, connector.error_text());
    case State::kFabricChanged:
      missing(devices, connector.error_text());
      // False while connections use it, which need no broker. Then a new one is opened at once.
      if (devices.remove(device.name())) scan(devices);
  }
}

void BrokeredShmProvider::open_connector(relay::DeviceRegistry& devices) {
  auto opened = BrokerConnector::open(config_.devices.shm.broker, devices.peer_id());
  if (opened)
    connector_ = std::move(*opened);
  else
    missing(devices, to_string(opened.error()));
}

void BrokeredShmProvider::open_device(relay::DeviceRegistry& devices) {
  auto device = ShmDevice::open({.peer_id = devices.peer_id(),
                                 .ports = traits_.shm_ports,
                                 .addressable = traits_.shm_addressable},
                                std::move(connector_));
  if (!device) return missing(devices, to_string(device.error()));
  auto reach = std::make_unique<ShmReachability>(**device);
  const Result<void> added = devices.add(std::move(*device), std::move(reach));
  if (!added) return missing(devices, to_string(added.error()));
  found(devices);
}

void BrokeredShmProvider::found(relay::DeviceRegistry& devices) {
  if (std::exchange(told_, kNoTrouble) == kNoTrouble) return;
  devices.set_unusable("shm", {});
  if (speaks_)
    LogEvent(LogLevel::kInfo, "main", "broker_found").field("broker", config_.devices.shm.broker);
}

void BrokeredShmProvider::missing(relay::DeviceRegistry& devices, const std::string& trouble) {
  if (std::exchange(told_, trouble) == trouble) return;
  DeviceRow row;
  row.name = "shm0";
  row.kind = "shm";
  row.state = "down";
  row.reason = fallback_info(FallbackReason::kNoRdmaDevice).name;
  row.detail = config_.devices.shm.broker + ": " + trouble;
  // A device that has lost the broker is still one.
  if (device_of(devices) == nullptr) devices.set_unusable("shm", {std::move(row)});
  if (speaks_)
    LogEvent(LogLevel::kWarn, "main", "no_broker")
        .field("broker", config_.devices.shm.broker)
        .field("what", trouble)
        .field("hint", kHint);
}

}  // namespace fairlead
