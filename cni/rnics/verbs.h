// Runs the six CNI commands. One call a process, one thread.
#pragma once

#include <string>

#include "cni/plugin/plugin_error.h"
#include "cni/plugin/request.h"

namespace fairlead::cni {

// File in runDir. Without it the plugin does nothing, so that an entry that remains after an
// uninstallation is harmless.
inline constexpr const char* kEnabledName = "enabled";

// Text for standard output; empty for commands without an answer.
Outcome<std::string> run_verb(const Request& request);

}  // namespace fairlead::cni
