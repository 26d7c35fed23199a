// Two shared-memory devices in one process, on a separate fabric.
#pragma once

#include <filesystem>
#include <iterator>
#include <memory>

#include "conformance/device_pair.h"
#include "conformance/test_fabric.h"
#include "rdma/shm/shm_device.h"

namespace fairlead::rdma::shm {

inline PeerId peer_id(std::uint8_t number) { return {{0x10, 0, 0, 0, 0, 0, 0, number}}; }

// Null if it cannot be opened.
inline std::unique_ptr<ShmDevice> open_device(TestFabric& fabric, std::uint8_t number,
                                              unsigned ports = 1, bool addressable = true,
                                              Duration grant_wait = kGrantWaitMax,
                                              Duration control_stall = kControlStallMax) {
  auto device = ShmDevice::open({.peer_id = peer_id(number),
                                 .ports = ports,
                                 .addressable = addressable,
                                 .wait_limits = {grant_wait, control_stall}},
                                fabric.join(peer_id(number)));
  return device ? std::move(*device) : nullptr;
}

inline std::size_t open_descriptors() {
  namespace fs = std::filesystem;
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

class ShmDevicePair final : public DevicePair {
 public:
  ShmDevicePair(unsigned ports, bool addressable)
      : left_(open_device(fabric_, 1, ports, addressable)),
        right_(open_device(fabric_, 2, ports, addressable)) {}
  Device& left() override { return *left_; }
  Device& right() override { return *right_; }
  bool set_left_port(PortNumber port, PortState state) override {
    left_->set_port_state(port, state);
    return true;
  }

 private:
  TestFabric fabric_;
  std::unique_ptr<ShmDevice> left_, right_;
};

inline std::unique_ptr<DevicePair> make_addressable_pair(unsigned ports) {
  return std::make_unique<ShmDevicePair>(ports, true);
}
inline std::unique_ptr<DevicePair> make_plain_pair(unsigned ports) {
  return std::make_unique<ShmDevicePair>(ports, false);
}

}  // namespace fairlead::rdma::shm
