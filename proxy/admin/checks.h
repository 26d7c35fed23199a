// The checks of `fairleadctl doctor` that the proxy makes on itself: what is seen, whether that is
// as it should be, and what to do if not. Pure.
#pragma once

#include <string>
#include <vector>

#include "admin/gather.h"
#include "admin/sources.h"
#include "admin/stats_sum.h"

namespace fairlead::admin {

struct CheckInput {
  StatsSpan stats;
  const GatheredSnapshot& snapshot;
  std::vector<std::string> not_ready;  // reasons; empty when ready
  bool draining = false;
  double uptime_seconds = 0;  // 0: unknown
};

// More failures of links in this time are a warning, as in the alert FairleadLinkFlapping.
inline constexpr double kFlappingFailures = 5;
inline constexpr double kFlappingSeconds = 900;

// Above this share of the limit, memory for buffers is a warning.
inline constexpr double kPinnedShareWarn = 0.9;

std::vector<Fact> standing_checks(const CheckInput& input);

}  // namespace fairlead::admin
