#include "admin/api.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "admin/json.h"
#include "admin/query.h"
#include "admin/snapshot_answers.h"
#include "event/http/http_status.h"

namespace fairlead::admin {

using event::HttpExchange;
using event::HttpRefusal;
using event::HttpRequest;
using event::HttpResponse;

struct AdminApi::Route {
  static constexpr std::size_t kParametersMax = 3;

  std::string_view method;
  std::string_view path;
  std::string_view summary;
  std::array<std::string_view, kParametersMax> parameters;  // empty: unused
  // One of the three is set.
  Answer answer = nullptr;
  Render render = nullptr;  // made of what the workers tell, and more
  Table table = nullptr;    // made of what the workers tell
};

const AdminApi::Route AdminApi::kRoutes[] = {
    {"GET", "/", "this list", {}, &AdminApi::list_routes},
    {"GET", "/metrics", "Prometheus text format", {}, nullptr, &AdminApi::metrics},
    {"GET", "/livez", "200 while the admin thread turns", {}, &AdminApi::alive},
    {"GET", "/healthz", "the same as /livez", {}, &AdminApi::alive},
    {"GET", "/readyz", "200 once the proxy can serve", {}, &AdminApi::ready},
    {"GET", "/stats", "counters, as text or json", {"format"}, &AdminApi::stats},
    {"GET", "/connections", "connections", {"limit", "state"}, {}, {}, connections_answer},
    {"GET", "/linkgroups", "link groups with their links", {}, {}, {}, link_groups_answer},
    {"GET", "/links", "links", {}, {}, {}, links_answer},
    {"GET", "/devices", "ports of RDMA devices", {}, {}, {}, devices_answer},
    {"GET", "/fallbacks", "reasons for TCP, counted", {"all"}, &AdminApi::fallbacks},
    {"GET", "/destinations", "where connections go directly", {}, &AdminApi::destinations},
    {"GET", "/why", "decisions about a peer", {"peer"}, {}, {}, why_answer},
    {"GET", "/doctor", "checks with findings and fixes", {}, {}, &AdminApi::doctor},
    {"GET", "/config", "the configuration in effect", {}, &AdminApi::config},
    {"GET", "/logging", "the log level", {}, &AdminApi::show_log_level},
    {"POST", "/logging", "sets the log level", {"level"}, &AdminApi::set_log_level_to},
    {"POST",
     "/ports",
     "takes a port of a device out of use, or back",
     {"device", "port", "state"},
     &AdminApi::take_port},
    {"POST", "/drain", "starts draining", {}, &AdminApi::drain},
};

namespace {

constexpr std::array<std::string_view, 3> kPublicPaths = {"/metrics", "/livez", "/readyz"};

// 0: the limit that was asked for is none.
std::size_t connections_limit(const HttpRequest& request) {
  return row_limit(request, kConnectionRowsDefault, kConnectionRowsMax);
}

SnapshotRequest snapshot_request(const HttpRequest& request) {
  SnapshotRequest wants;
  if (request.path == "/connections")
    wants.connections_max =
        parameter(request, "state") ? kConnectionRowsScanned : connections_limit(request);
  wants.decisions = request.path == "/why";
  return wants;
}

}  // namespace

AdminApi::AdminApi(event::HttpServer& http, AdminSources sources, Duration snapshot_timeout,
                   uid_t owner)
    : http_(http),
      sources_(std::move(sources)),
      gather_(http, sources_.snapshot, sources_.stats.size(), snapshot_timeout),
      owner_(owner) {}

std::optional<std::string> AdminApi::refusal(const HttpRequest& request) const {
  if (std::ranges::find(kPublicPaths, request.path) != kPublicPaths.end()) return std::nullopt;
  if (request.over_tcp)
    return "over TCP there are /metrics, /livez and /readyz only; everything else is on " +
           (sockets_.empty() ? "the Unix socket, and admin.socket names none"
                             : "the Unix socket " + sockets_ + ", which fairleadctl uses");
  if (request.peer_uid == uid_t{0} || request.peer_uid == owner_) return std::nullopt;
  return "allowed are processes of root and of the proxy's user, uid " + std::to_string(owner_) +
         "; this is " + request.source;
}

void AdminApi::handle(HttpExchange exchange) {
  const HttpRequest& request = exchange.request();
  if (const auto reason = refusal(request)) {
    exchange.note_refusal(HttpRefusal::kForbidden, *reason);
    return exchange.respond(error_response(http_status::kForbidden, *reason));
  }
  const Route* found = nullptr;
  std::string methods;
  for (const Route& route : kRoutes) {
    if (route.path != request.path) continue;
    if (route.method == request.method) found = &route;
    if (!methods.empty()) methods += ", ";
    methods += route.method;
  }
  if (methods.empty()) {
    exchange.note_refusal(HttpRefusal::kNotServed, "no such path");
    return exchange.respond(
        error_response(http_status::kNotFound, "no such path; GET / lists those there are"));
  }
  if (found == nullptr) {
    exchange.note_refusal(HttpRefusal::kNotServed, "the method is not allowed for this path");
    HttpResponse response =
        error_response(http_status::kMethodNotAllowed, "this path takes " + methods + " only");
    response.headers.emplace_back("Allow", methods);
    return exchange.respond(response);
  }
  if (const auto error = parameter_error(request, found->parameters))
    return exchange.respond(error_response(http_status::kBadRequest, *error));
  if (found->answer != nullptr) return exchange.respond((this->*found->answer)(request));
  if (request.path == "/connections" && connections_limit(request) == 0)
    return exchange.respond(
        error_response(http_status::kBadRequest,
                       "limit must be a number from 1 to " + std::to_string(kConnectionRowsMax)));
  const auto render = [this, found](const HttpRequest& asked, const GatheredSnapshot& snapshot) {
    return found->table != nullptr ? found->table(asked, snapshot, sources_.stats)
                                   : (this->*found->render)(snapshot);
  };
  // Scrapers are many and get the same, so that a crowd of them costs the workers one question.
  if (request.path == "/metrics") return gather_.ask_shared(std::move(exchange), render);
  if (!gather_.ask(snapshot_request(request), exchange, render))
    exchange.respond(error_response(http_status::kServiceUnavailable,
                                    "too many requests wait for the workers; try again"));
}

HttpResponse AdminApi::list_routes(const HttpRequest&) {
  Json routes = Json::array();
  for (const Route& route : kRoutes) {
    Json parameters = Json::array();
    for (std::string_view name : route.parameters)
      if (!name.empty()) parameters.push_back(name);
    routes.push_back({{"method", route.method},
                      {"path", route.path},
                      {"parameters", std::move(parameters)},
                      {"summary", route.summary}});
  }
  return json_response(http_status::kOk,
                       {{"build", to_json(sources_.build)}, {"routes", std::move(routes)}});
}

}  // namespace fairlead::admin
