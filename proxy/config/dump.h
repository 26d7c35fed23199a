// A Config as YAML, for people and for /config of the admin interface.
#pragma once

#include <string>

#include "config/config.h"

namespace fairlead::config {

// Every key with its value, in the order of config/proxy.yaml. Loading the text gives an equal
// Config, if the Config came from the loader. There are no secrets in it.
std::string to_yaml(const Config& config);

}  // namespace fairlead::config
