// The alias of interface lo in a pod's network namespace, which carries the note that the plugin
// leaves for the sidecar (base/hand_over.h).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fairlead::cni {

// Of lo in the network namespace of the calling thread; empty when there is none.
Result<std::string> read_loopback_alias();
// Empty removes it.
Result<void> write_loopback_alias(std::string_view alias);

}  // namespace fairlead::cni
