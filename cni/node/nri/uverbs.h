// The character devices of libibverbs on this node, by sysfs.
#pragma once

#include <string>
#include <vector>

#include "cni/node/nri/rnic_adjustment.h"

namespace fairlead::cni::node::nri {

inline constexpr std::size_t kUverbsDevicesMax = 256;

// Sorted by number. Devices that vanish meanwhile are omitted. `sysfs` is "/sys" except in tests.
std::vector<UverbsDevice> find_uverbs_devices(const std::string& sysfs = "/sys");

}  // namespace fairlead::cni::node::nri
