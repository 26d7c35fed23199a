#include "admin/api.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "admin/json.h"
#include "admin/query.h"

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
  Answer answer = nullptr;                                  // exactly one of the two is set
  Render render = nullptr;                                  // for what has to ask the workers
};

const AdminApi::Route AdminApi::kRoutes[] = {
    {"GET", "/", "this list", {}, &AdminApi::list_routes, nullptr},
    {"GET", "/metrics", "Prometheus text format", {}, nullptr, &AdminApi::metrics},
    {"GET", "/livez", "200 while the admin thread turns", {}, &AdminApi::alive, nullptr},
    {"GET", "/healthz", "the same as /livez", {}, &AdminApi::alive, nullptr},
    {"GET", "/readyz", "200 once the proxy can serve", {}, &AdminApi::ready, nullptr},
    {"GET", "/stats", "counters, as text or json", {"format"}, &AdminApi::stats, nullptr},
    {"GET", "/connections", "connections", {"limit", "state"}, nullptr, &AdminApi::connections},
    {"GET", "/linkgroups", "link groups with their links", {}, nullptr, &AdminApi::link_groups},
    {"GET", "/links", "links", {}, nullptr, &AdminApi::links},
    {"GET", "/devices", "ports of RDMA devices", {}, nullptr, &AdminApi::devices},
    {"GET", "/fallbacks", "reasons for TCP, counted", {"all"}, &AdminApi::fallbacks, nullptr},
    {"GET", "/why", "decisions about a peer", {"peer"}, nullptr, &AdminApi::why},
    {"GET", "/doctor", "checks with findings and fixes", {}, nullptr, &AdminApi::doctor},
    {"GET", "/config", "the configuration in effect", {}, &AdminApi::config, nullptr},
    {"GET", "/logging", "the log level", {}, &AdminApi::show_log_level, nullptr},
    {"POST", "/logging", "sets the log level", {"level"}, &AdminApi::set_log_level_to, nullptr},
    {"POST",
     "/ports",
     "takes a port of a device out of use, or back",
     {"device", "port", "state"},
     &AdminApi::take_port,
     nullptr},
    {"POST", "/drain", "starts draining", {}, &AdminApi::drain, nullptr},
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
    return exchange.respond(error_response(403, *reason));
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
    return exchange.respond(error_response(404, "no such path; GET / lists those there are"));
  }
  if (found == nullptr) {
    exchange.note_refusal(HttpRefusal::kNotServed, "the method is not allowed for this path");
    HttpResponse response = error_response(405, "this path takes " + methods + " only");
    response.headers.emplace_back("Allow", methods);
    return exchange.respond(response);
  }
  if (const auto error = parameter_error(request, found->parameters))
    return exchange.respond(error_response(400, *error));
  if (found->answer != nullptr) return exchange.respond((this->*found->answer)(request));
  if (request.path == "/connections" && connections_limit(request) == 0)
    return exchange.respond(error_response(
        400, "limit must be a number from 1 to " + std::to_string(kConnectionRowsMax)));
  const auto render = [this, make = found->render](const HttpRequest& asked,
                                                   const GatheredSnapshot& snapshot) {
    return (this->*make)(asked, snapshot);
  };
  // Scrapers are many and get the same, so that a crowd of them costs the workers one question.
  if (request.path == "/metrics") return gather_.ask_shared(std::move(exchange), render);
  if (!gather_.ask(snapshot_request(request), exchange, render))
    exchange.respond(error_response(503, "too many requests wait for the workers; try again"));
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
  return json_response(200, {{"build", to_json(sources_.build)}, {"routes", std::move(routes)}});
}

}  // namespace fairlead::admin
