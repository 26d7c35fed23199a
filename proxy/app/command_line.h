// The command line of fairlead-proxy, and the configuration that follows from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/error.h"
#include "config/load.h"

namespace fairlead {

// sysexits(3)
inline constexpr int kExitUsage = 64;
inline constexpr int kExitFailure = 1;

struct Startup {
  config::Config config;
  std::vector<std::string> warnings;
};

// Run with `startup`, or exit with `exit_code` (all messages are printed already).
struct Parsed {
  std::optional<Startup> startup;
  int exit_code = 0;
};

Parsed parse_command_line(int argc, char** argv, const char* const* environment);

}  // namespace fairlead
