// The proxy as a program: from its command line to its exit code.
#pragma once

#include "devices/device_traits.h"

namespace fairlead {

// Exit codes: 0 after a drain, 1 when something could not be set up, 64 for a bad command line or
// configuration. Once in a process, on its only thread.
int run_proxy(int argc, char** argv, const DeviceTraits& traits = {});

}  // namespace fairlead
