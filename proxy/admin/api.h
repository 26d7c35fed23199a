// What the admin server answers:
//
//   GET  /                         this list
//   GET  /metrics                  Prometheus text format
//   GET  /livez                    200 while the admin thread turns
//   GET  /healthz                  the same, under its older name
//   GET  /readyz                   200 once the proxy can serve, 503 with the reasons before
//   GET  /stats?format=            counters in all and per worker: text, or json
//   GET  /connections?limit=&state=
//   GET  /linkgroups               link groups with their links
//   GET  /links                    links alone
//   GET  /devices                  ports of RDMA devices
//   GET  /fallbacks?all=           reasons for TCP that occurred, or all of them
//   GET  /why?peer=                decisions about a peer (ADDR:PORT or ADDR), newest first
//   GET  /doctor                   checks with findings and fixes
//   GET  /config                   the configuration in effect, YAML
//   GET  /logging                  the log level
//   POST /logging?level=           sets it
//   POST /ports?device=&port=&state=
//                                  takes a port of a shared-memory device out of use (down), or
//                                  back (up)
//   POST /drain                    starts draining
//
// Readiness is a latch: once true it stays true, also while draining, because a draining proxy
// still carries every connection, as TCP. Taking a pod that ends out of its Services is done by
// Kubernetes.
//
// POST is taken from this host only: loopback or a UNIX socket. Errors are JSON, {"error": "…"},
// with 400 (parameters), 403, 404, 405, 503 (too many requests at once).
#pragma once

#include <cstddef>

#include "admin/gather.h"
#include "admin/sources.h"
#include "base/time.h"
#include "event/http/http_server.h"

namespace fairlead::admin {

inline constexpr std::size_t kConnectionRowsDefault = 1000;
inline constexpr std::size_t kConnectionRowsMax = 10'000;
// With a filter on the state, so many rows of each worker are looked through.
inline constexpr std::size_t kConnectionRowsScanned = 65'536;
inline constexpr std::size_t kDecisionRowsMax = 100;

// Lives on the admin thread. Keeps unanswered exchanges, so it dies before the HttpServer.
class AdminApi {
 public:
  AdminApi(event::HttpServer& http, AdminSources sources, Duration snapshot_timeout);

  void handle(event::HttpExchange exchange);

 private:
  struct Route;
  static const Route kRoutes[];

  using Answer = event::HttpResponse (AdminApi::*)(const event::HttpRequest&);
  using Render = event::HttpResponse (AdminApi::*)(const event::HttpRequest&,
                                                   const GatheredSnapshot&);

  event::HttpResponse list_routes(const event::HttpRequest& request);
  event::HttpResponse alive(const event::HttpRequest& request);
  event::HttpResponse ready(const event::HttpRequest& request);
  event::HttpResponse stats(const event::HttpRequest& request);
  event::HttpResponse fallbacks(const event::HttpRequest& request);
  event::HttpResponse config(const event::HttpRequest& request);
  event::HttpResponse show_log_level(const event::HttpRequest& request);
  event::HttpResponse set_log_level_to(const event::HttpRequest& request);
  event::HttpResponse take_port(const event::HttpRequest& request);
  event::HttpResponse drain(const event::HttpRequest& request);

  event::HttpResponse metrics(const event::HttpRequest& request, const GatheredSnapshot& snapshot);
  event::HttpResponse connections(const event::HttpRequest& request,
                                  const GatheredSnapshot& snapshot);
  event::HttpResponse link_groups(const event::HttpRequest& request,
                                  const GatheredSnapshot& snapshot);
  event::HttpResponse links(const event::HttpRequest& request, const GatheredSnapshot& snapshot);
  event::HttpResponse devices(const event::HttpRequest& request, const GatheredSnapshot& snapshot);
  event::HttpResponse why(const event::HttpRequest& request, const GatheredSnapshot& snapshot);
  event::HttpResponse doctor(const event::HttpRequest& request, const GatheredSnapshot& snapshot);

  std::vector<std::string> not_ready_reasons();
  std::vector<Fact> facts() const;
  bool draining() const;

  AdminSources sources_;
  SnapshotGather gather_;
  bool was_ready_ = false;
};

}  // namespace fairlead::admin
