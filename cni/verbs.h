// The six verbs, carried out. One call a process, one thread.
#pragma once

#include <string>

#include "cni/plugin_error.h"
#include "cni/request.h"

namespace fairlead::cni {

// In runDir. Without it the plugin does nothing: what is left of it in a configuration after an
// uninstallation must not hurt anybody.
inline constexpr const char* kEnabledName = "enabled";

// What goes to standard output; empty for verbs without an answer.
Outcome<std::string> run_verb(const Request& request);

}  // namespace fairlead::cni
