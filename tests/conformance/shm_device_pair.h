// Two shared-memory devices in one process, on a separate fabric.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "conformance/device_pair.h"
#include "rdma/shm/shm_device.h"

namespace fairlead::rdma::shm {

// A new directory below /tmp, removed with its contents.
class FabricDirectory {
 public:
  FabricDirectory() {
    std::string path = (std::filesystem::temp_directory_path() / "fairlead-XXXXXX").string();
    if (::mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~FabricDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  FabricDirectory(const FabricDirectory&) = delete;
  FabricDirectory& operator=(const FabricDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline PeerId peer_id(std::uint8_t number) { return {{0x10, 0, 0, 0, 0, 0, 0, number}}; }

inline std::unique_ptr<ShmDevice> open_device(const FabricDirectory& directory, std::uint8_t number,
                                              unsigned ports = 1, bool addressable = true,
                                              Duration grant_wait = kGrantWaitMax,
                                              Duration control_stall = kControlStallMax) {
  auto device = ShmDevice::open({.directory = directory.path(),
                                 .peer_id = peer_id(number),
                                 .ports = ports,
                                 .addressable = addressable,
                                 .wait_limits = {grant_wait, control_stall}});
  return device ? std::move(*device) : nullptr;
}

class ShmDevicePair final : public DevicePair {
 public:
  ShmDevicePair(unsigned ports, bool addressable)
      : left_(open_device(directory_, 1, ports, addressable)),
        right_(open_device(directory_, 2, ports, addressable)) {}
  Device& left() override { return *left_; }
  Device& right() override { return *right_; }
  bool set_left_port(PortNumber port, PortState state) override {
    left_->set_port_state(port, state);
    return true;
  }

 private:
  FabricDirectory directory_;
  std::unique_ptr<ShmDevice> left_, right_;
};

inline std::unique_ptr<DevicePair> make_addressable_pair(unsigned ports) {
  return std::make_unique<ShmDevicePair>(ports, true);
}
inline std::unique_ptr<DevicePair> make_plain_pair(unsigned ports) {
  return std::make_unique<ShmDevicePair>(ports, false);
}

}  // namespace fairlead::rdma::shm
