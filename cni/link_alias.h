// The alias of interface lo in a pod's network namespace, which carries the note that the plugin
// leaves for the sidecar (base/hand_over.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fairlead::cni {

// Of lo in the network namespace of the calling thread; empty when there is none.
Result<std::string> read_loopback_alias();
// Empty removes it.
Result<void> write_loopback_alias(std::string_view alias);
// Writes what `change` makes of the note, where that differs; one thread of this process at a time.
// Gives whether it was written. kNotFound where lo has no note of the plugin.
Result<bool> change_note(const std::function<std::string(const std::string&)>& change);

}  // namespace fairlead::cni
