#include "admin/snapshot_answers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "admin/json.h"
#include "admin/query.h"
#include "event/http/http_status.h"

namespace fairlead::admin {

namespace {

Json silent_json(const GatheredSnapshot& snapshot) { return snapshot.silent; }

}  // namespace

HttpResponse connections_answer(const HttpRequest& request, const GatheredSnapshot& snapshot,
                                StatsSpan stats) {
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
  for (const WorkerStats* worker : stats)
    for (const auto& direction : worker->traffic)
      for (const TrafficStats& transport : direction) open += transport.connections_active.get();
  return json_response(http_status::kOk, {{"connections", std::move(rows)},
                                          {"open", open},
                                          {"limit", limit},
                                          {"silent_workers", silent_json(snapshot)}});
}

HttpResponse link_groups_answer(const HttpRequest&, const GatheredSnapshot& snapshot, StatsSpan) {
  Json rows = Json::array();
  for (const WorkerSnapshot& worker : snapshot.workers)
    for (const LinkGroupRow& group : worker.link_groups) rows.push_back(to_json(group));
  return json_response(http_status::kOk, {{"link_groups", std::move(rows)},
                                          {"silent_workers", silent_json(snapshot)}});
}

HttpResponse links_answer(const HttpRequest&, const GatheredSnapshot& snapshot, StatsSpan) {
  Json rows = Json::array();
  for (const WorkerSnapshot& worker : snapshot.workers) {
    for (const LinkGroupRow& group : worker.link_groups) {
      for (const LinkRow& link : group.links) {
        rows.push_back(to_json(link));
        rows.back()["worker"] = worker.worker;
      }
    }
  }
  return json_response(http_status::kOk,
                       {{"links", std::move(rows)}, {"silent_workers", silent_json(snapshot)}});
}

HttpResponse devices_answer(const HttpRequest&, const GatheredSnapshot& snapshot, StatsSpan) {
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
  return json_response(http_status::kOk,
                       {{"devices", std::move(rows)}, {"silent_workers", silent_json(snapshot)}});
}

HttpResponse why_answer(const HttpRequest& request, const GatheredSnapshot& snapshot, StatsSpan) {
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
  return json_response(http_status::kOk,
                       {{"decisions", std::move(rows)}, {"silent_workers", silent_json(snapshot)}});
}

}  // namespace fairlead::admin
