// Headers of sources that handle JSON, for FAIRLEAD_PRECOMPILE.
#pragma once

#include "precompiled_standard.h"

#include <nlohmann/json.hpp>
