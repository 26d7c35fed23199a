// The state of the proxy in the text format of Prometheus. Counters come from WorkerStats, which
// needs no worker's help; what is labelled by device comes from the snapshots, and lacks silent
// workers.
#pragma once

#include <string>
#include <vector>

#include "admin/gather.h"
#include "admin/process_usage.h"
#include "admin/sources.h"
#include "admin/stats_sum.h"
#include "admin/tcp_losses.h"

namespace fairlead::admin {

struct MetricsInput {
  const BuildInfo& build;
  StatsSpan stats;
  const GatheredSnapshot& snapshot;
  std::vector<Fact> facts;
  bool ready = false;
  bool draining = false;
  ProcessUsage process;
  TcpLosses tcp_losses;
  DirectReport direct;
  std::uint64_t log_dropped = 0;                       // lines
  const event::HttpRefusals* http_refusals = nullptr;  // of the admin server; null: none to show
};

std::string render_metrics(const MetricsInput& input);

}  // namespace fairlead::admin
