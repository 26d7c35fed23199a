// Headers that most tests include, for FAIRLEAD_PRECOMPILE.
#pragma once

#include "precompiled_cold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
