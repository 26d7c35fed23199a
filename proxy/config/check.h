// What no single key can tell: values that contradict each other.
#pragma once

#include <map>
#include <string>

#include "config/config.h"
#include "config/error.h"

namespace fairlead::config {

// Lowers the defaults that depend on another value (buffers.publish, limits.handshakes) where that
// value was set and they were not. `set` tells which keys were set, and where.
void settle_defaults(Config& config, const std::map<std::string, Origin>& set);

// `whole` is where to point when none of the keys in question was set.
void check_relations(const Config& config, const std::map<std::string, Origin>& set,
                     const Origin& whole, Findings& findings);

}  // namespace fairlead::config
