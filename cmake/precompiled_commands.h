// Headers of command lines, for FAIRLEAD_PRECOMPILE.
#pragma once

#include "precompiled_cold.h"

#include <CLI/CLI.hpp>
