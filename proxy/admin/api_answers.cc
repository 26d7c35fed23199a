#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "admin/api.h"
#include "admin/checks.h"
#include "admin/json.h"
#include "admin/metrics.h"
#include "admin/process_usage.h"
#include "admin/query.h"
#include "base/log.h"
#include "event/http/http_status.h"

namespace fairlead::admin {

using event::HttpRequest;
using event::HttpResponse;

namespace {

constexpr std::string_view kLogLevels = "trace, debug, info, warn, error, off";

double uptime_seconds() {
  const double start = read_process_usage().start_time_seconds;
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return start == 0 ? 0 : std::max(0.0, now - start);
}

}  // namespace

HttpResponse AdminApi::alive(const HttpRequest&) {
  return json_response(http_status::kOk, {{"status", "alive"}});
}

std::vector<std::string> AdminApi::not_ready_reasons() {
  if (was_ready_ || !sources_.not_ready) {
    was_ready_ = true;
    return {};
  }
  std::vector<std::string> reasons = sources_.not_ready();
  was_ready_ = reasons.empty();
  return reasons;
}

std::vector<Fact> AdminApi::facts() const {
  return sources_.facts ? sources_.facts() : std::vector<Fact>();
}

bool AdminApi::draining() const { return sources_.draining && sources_.draining(); }

HttpResponse AdminApi::ready(const HttpRequest&) {
  const std::vector<std::string> reasons = not_ready_reasons();
  return json_response(reasons.empty() ? http_status::kOk : http_status::kServiceUnavailable,
                       {{"status", reasons.empty() ? "ready" : "not_ready"},
                        {"draining", draining()},
                        {"reasons", reasons}});
}

HttpResponse AdminApi::stats(const HttpRequest& request) {
  const std::string_view format = parameter(request, "format").value_or("text");
  if (format != "text" && format != "json")
    return error_response(http_status::kBadRequest,
                          "format must be text or json, not " + in_quotes(format));
  const StatsSpan all = sources_.stats;
  Json workers = Json::array();
  for (std::size_t index = 0; index < all.size(); ++index)
    workers.push_back(stats_json(all.subspan(index, 1)));
  const Json json = {{"build", to_json(sources_.build)},
                     {"ready", not_ready_reasons().empty()},
                     {"draining", draining()},
                     {"total", stats_json(all)},
                     {"workers", std::move(workers)}};
  if (format == "json") return json_response(http_status::kOk, json);
  return {.body = flat_text(json)};
}

HttpResponse AdminApi::fallbacks(const HttpRequest& request) {
  const std::string_view all = parameter(request, "all").value_or("false");
  if (all != "true" && all != "false")
    return error_response(http_status::kBadRequest,
                          "all must be true or false, not " + in_quotes(all));
  return json_response(http_status::kOk,
                       {{"fallbacks", fallbacks_json(sources_.stats, all == "true")}});
}

HttpResponse AdminApi::destinations(const HttpRequest&) {
  const DirectReport report = direct();
  Json rows = Json::array();
  for (const DestinationRow& row : report.destinations) rows.push_back(to_json(row));
  return json_response(http_status::kOk, {{"destinations", std::move(rows)},
                                          {"direct_connections", report.connections},
                                          {"unavailable", report.unavailable}});
}

DirectReport AdminApi::direct() const {
  return sources_.direct ? sources_.direct()
                         : DirectReport{.unavailable = "no connection is redirected"};
}

HttpResponse AdminApi::config(const HttpRequest&) {
  if (!sources_.config_dump)
    return error_response(http_status::kNotFound, "no configuration to show");
  return {.content_type = "application/yaml", .body = sources_.config_dump()};
}

HttpResponse AdminApi::show_log_level(const HttpRequest&) {
  return json_response(http_status::kOk, {{"level", to_string(log_level())}});
}

HttpResponse AdminApi::set_log_level_to(const HttpRequest& request) {
  const auto name = parameter(request, "level");
  const auto level = name ? log_level_from(*name) : std::nullopt;
  if (!level)
    return error_response(http_status::kBadRequest,
                          "level must be one of " + std::string(kLogLevels));
  const std::string_view before = to_string(log_level());
  log_set_level(*level);
  LogEvent(LogLevel::kWarn, "admin", "log_level").field("from", before).field("to", *name);
  return show_log_level(request);
}

// What came of it is seen in /devices: a worker may be busy, and an RNIC takes no such orders.
HttpResponse AdminApi::take_port(const HttpRequest& request) {
  if (!sources_.take_port)
    return error_response(http_status::kNotFound, "this proxy has no devices");
  const auto device = parameter(request, "device");
  const auto port = parameter(request, "port");
  const auto state = parameter(request, "state");
  std::uint8_t number = 0;
  const char* end = port ? port->data() + port->size() : nullptr;
  if (!device || !port || std::from_chars(port->data(), end, number).ptr != end || number == 0)
    return error_response(http_status::kBadRequest,
                          "device must be a name and port a number from 1 to 255");
  if (state != "up" && state != "down")
    return error_response(http_status::kBadRequest, "state must be up or down");
  LogEvent(LogLevel::kWarn, "admin", "port")
      .field("device", *device)
      .field("port", std::uint64_t{number})
      .field("state", *state);
  sources_.take_port(std::string(*device), number, state == "up");
  return json_response(http_status::kAccepted,
                       {{"device", *device}, {"port", number}, {"state", *state}});
}

HttpResponse AdminApi::drain(const HttpRequest&) {
  if (!sources_.drain) return error_response(http_status::kNotFound, "this proxy cannot drain");
  sources_.drain();
  return json_response(http_status::kAccepted, {{"draining", true}});
}

HttpResponse AdminApi::metrics(const GatheredSnapshot& snapshot) {
  const bool is_ready = not_ready_reasons().empty();
  raise_to(tcp_losses_, read_tcp_losses());
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = render_metrics({.build = sources_.build,
                                  .stats = sources_.stats,
                                  .snapshot = snapshot,
                                  .facts = facts(),
                                  .ready = is_ready,
                                  .draining = draining(),
                                  .process = read_process_usage(),
                                  .tcp_losses = tcp_losses_,
                                  .direct = direct(),
                                  .log_dropped = log_dropped_lines(),
                                  .http_refusals = &http_.refusals()})};
}

HttpResponse AdminApi::doctor(const GatheredSnapshot& snapshot) {
  std::vector<Fact> checks = standing_checks({.stats = sources_.stats,
                                              .snapshot = snapshot,
                                              .not_ready = not_ready_reasons(),
                                              .draining = draining(),
                                              .uptime_seconds = uptime_seconds()});
  for (Fact& fact : facts()) checks.push_back(std::move(fact));
  Json rows = Json::array();
  for (const Fact& check : checks) rows.push_back(to_json(check));
  return json_response(http_status::kOk,
                       {{"build", to_json(sources_.build)},
                        {"checks", std::move(rows)},
                        {"redirect",
                         {{"ports", sources_.redirect.ports},
                          {"user", sources_.redirect.user},
                          {"connections", sum_of(sources_.stats, &WorkerStats::redirected)}}}});
}

}  // namespace fairlead::admin
