// The answers that are made of what the workers tell.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "admin/api.h"
#include "admin/checks.h"
#include "admin/json.h"
#include "admin/metrics.h"
#include "admin/process_usage.h"
#include "admin/query.h"
#include "base/log.h"

namespace fairlead::admin {

using event::HttpRequest;
using event::HttpResponse;

namespace {

Json silent_json(const GatheredSnapshot& snapshot) { return snapshot.silent; }

double uptime_seconds() {
  const double start = read_process_usage().start_time_seconds;
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return start == 0 ? 0 : std::max(0.0, now - start);
}

}  // namespace

HttpResponse AdminApi::metrics(const HttpRequest&, const GatheredSnapshot& snapshot) {
  const bool is_ready = not_ready_reasons().empty();
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = render_metrics({.build = sources_.build,
                                  .stats = sources_.stats,
                                  .snapshot = snapshot,
                                  .facts = facts(),
                                  .ready = is_ready,
                                  .draining = draining(),
                                  .process = read_process_usage(),
                                  .log_dropped = log_dropped_lines(),
                                  .http_refusals = &http_.refusals()})};
}

HttpResponse AdminApi::connections(const HttpRequest& request, const GatheredSnapshot& snapshot) {
  const std::size_t limit = row_limit(request, kConnectionRowsDefault, kConnectionRowsMax);
  const auto state = parameter(request, "state");
  Json rows = Json::array();
  bool is_truncated = false;
  for (const WorkerSnapshot& worker : snapshot.workers) {
    for (const ConnectionRow& row : worker.connections) {
      if (state && row.state != *state) continue;
      is_truncated = rows.size() >= limit;
      if (is_truncated) break;
      rows.push_back(to_json(row));
    }
    if (is_truncated) break;
  }
  std::uint64_t open = 0;
  for (const WorkerStats* stats : sources_.stats)
    for (const auto& direction : stats->traffic)
      for (const TrafficStats& transport : direction) open += transport.connections_active.get();
  return json_response(200, {{"connections", std::move(rows)},
                             {"open", open},
                             {"limit", limit},
                             {"silent_workers", silent_json(snapshot)}});
}

HttpResponse AdminApi::link_groups(const HttpRequest&, const GatheredSnapshot& snapshot) {
  Json rows = Json::array();
  for (const WorkerSnapshot& worker : snapshot.workers)
    for (const LinkGroupRow& group : worker.link_groups) rows.push_back(to_json(group));
  return json_response(
      200, {{"link_groups", std::move(rows)}, {"silent_workers", silent_json(snapshot)}});
}

HttpResponse AdminApi::links(const HttpRequest&, const GatheredSnapshot& snapshot) {
  Json rows = Json::array();
  for (const WorkerSnapshot& worker : snapshot.workers) {
    for (const LinkGroupRow& group : worker.link_groups) {
      for (const LinkRow& link : group.links) {
        rows.push_back(to_json(link));
        rows.back()["worker"] = worker.worker;
      }
    }
  }
  return json_response(200,
                       {{"links", std::move(rows)}, {"silent_workers", silent_json(snapshot)}});
}

HttpResponse AdminApi::devices(const HttpRequest&, const GatheredSnapshot& snapshot) {
  // Workers open the same devices, each for itself. What they agree on is one row.
  std::vector<std::pair<Json, std::vector<unsigned>>> seen;
  for (const WorkerSnapshot& worker : snapshot.workers) {
    for (const DeviceRow& device : worker.devices) {
      Json row = to_json(device);
      const auto same = std::find_if(seen.begin(), seen.end(),
                                     [&row](const auto& entry) { return entry.first == row; });
      if (same != seen.end())
        same->second.push_back(worker.worker);
      else
        seen.emplace_back(std::move(row), std::vector{worker.worker});
    }
  }
  Json rows = Json::array();
  for (auto& [row, workers] : seen) {
    row["workers"] = workers;
    rows.push_back(std::move(row));
  }
  return json_response(200,
                       {{"devices", std::move(rows)}, {"silent_workers", silent_json(snapshot)}});
}

HttpResponse AdminApi::why(const HttpRequest& request, const GatheredSnapshot& snapshot) {
  const auto peer = parameter(request, "peer");
  std::vector<const DecisionRow*> found;
  for (const WorkerSnapshot& worker : snapshot.workers)
    for (const DecisionRow& row : worker.decisions)
      if (!peer || peer_matches(row.peer, *peer)) found.push_back(&row);
  // RFC 3339 in one zone sorts as text.
  std::stable_sort(found.begin(), found.end(),
                   [](const auto* a, const auto* b) { return a->time > b->time; });
  if (found.size() > kDecisionRowsMax) found.resize(kDecisionRowsMax);
  Json rows = Json::array();
  for (const DecisionRow* row : found) rows.push_back(to_json(*row));
  return json_response(200,
                       {{"decisions", std::move(rows)}, {"silent_workers", silent_json(snapshot)}});
}

HttpResponse AdminApi::doctor(const HttpRequest&, const GatheredSnapshot& snapshot) {
  std::vector<Fact> checks = standing_checks({.stats = sources_.stats,
                                              .snapshot = snapshot,
                                              .not_ready = not_ready_reasons(),
                                              .draining = draining(),
                                              .uptime_seconds = uptime_seconds()});
  for (Fact& fact : facts()) checks.push_back(std::move(fact));
  Json rows = Json::array();
  for (const Fact& check : checks) rows.push_back(to_json(check));
  return json_response(200,
                       {{"build", to_json(sources_.build)},
                        {"checks", std::move(rows)},
                        {"redirect",
                         {{"ports", sources_.redirect.ports},
                          {"user", sources_.redirect.user},
                          {"connections", sum_of(sources_.stats, &WorkerStats::redirected)}}}});
}

}  // namespace fairlead::admin
