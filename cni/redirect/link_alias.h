// The alias of interface lo in a pod's network namespace. It carries the plugin's note to the
// sidecar (base/hand_over.h).
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
// Replaces the note by the result of `change`, if that differs. Only one thread of this process
// does so at a time. Returns true if it was written. kNotFound if lo has no note of the plugin.
Result<bool> change_note(const std::function<std::string(const std::string&)>& change);

}  // namespace fairlead::cni
