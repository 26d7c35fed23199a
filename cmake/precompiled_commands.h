// Headers of command lines, for FAIRLEAD_PRECOMPILE.
#pragma once

#include "precompiled_standard.h"

#include <CLI/CLI.hpp>
