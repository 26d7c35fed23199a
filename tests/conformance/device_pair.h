// Interface of a device implementation to the conformance suite: two devices that can reach each
// other.
#pragma once

#include <memory>
#include <ostream>

#include "rdma/device.h"

namespace fairlead::rdma {

class DevicePair {
 public:
  virtual ~DevicePair() = default;
  virtual Device& left() = 0;
  virtual Device& right() = 0;
  // Takes a port of the left device down or up; false when this cannot be done to the device.
  virtual bool set_left_port(PortNumber, PortState) { return false; }
};

// One way to run the suite.
struct DeviceKind {
  const char* name;
  std::unique_ptr<DevicePair> (*make)(unsigned ports);  // nullptr: not on this machine
  unsigned ping_pongs = 1000;                           // that fit a few seconds
  bool shares_buffers = true;                           // Device::share_buffer()
};

inline void PrintTo(const DeviceKind& kind, std::ostream* out) { *out << kind.name; }

}  // namespace fairlead::rdma
