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
//   GET  /destinations             where connections go directly, and how many did
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
// Over TCP there are /metrics, /livez and /readyz only, because anybody may reach a port.
// Everything else is for the UNIX socket, and there for processes of root and of the proxy's own
// user; the kernel tells who connected. Errors are JSON, {"error": "…"}, with 400 (parameters), 403
// (with the name of the socket), 404, 405, 503 (too many requests at once).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>

#include "admin/gather.h"
#include "admin/sources.h"
#include "admin/stats_sum.h"
#include "admin/tcp_losses.h"
#include "base/time.h"
#include "event/http/http_server.h"

namespace fairlead::admin {

// With a filter on the state, so many rows of each worker are looked through.
inline constexpr std::size_t kConnectionRowsScanned = 65'536;

// Lives on the admin thread. Keeps unanswered exchanges, so it dies before the HttpServer.
class AdminApi {
 public:
  // `owner`: the user who may ask over a UNIX socket, besides root.
  AdminApi(event::HttpServer& http, AdminSources sources, Duration snapshot_timeout, uid_t owner);

  void handle(event::HttpExchange exchange);

  // Where the server listens, for those who ask in the wrong place. Before it serves.
  void add_socket(const std::string& name) { sockets_ += (sockets_.empty() ? "" : ", ") + name; }

 private:
  struct Route;
  static const Route kRoutes[];

  using Answer = event::HttpResponse (AdminApi::*)(const event::HttpRequest&);
  using Render = event::HttpResponse (AdminApi::*)(const GatheredSnapshot&);
  using Table = event::HttpResponse (*)(const event::HttpRequest&, const GatheredSnapshot&,
                                        StatsSpan);

  // Why the caller may not have this path; nothing if it may.
  std::optional<std::string> refusal(const event::HttpRequest& request) const;
  event::HttpResponse list_routes(const event::HttpRequest& request);
  event::HttpResponse alive(const event::HttpRequest& request);
  event::HttpResponse ready(const event::HttpRequest& request);
  event::HttpResponse stats(const event::HttpRequest& request);
  event::HttpResponse fallbacks(const event::HttpRequest& request);
  event::HttpResponse destinations(const event::HttpRequest& request);
  event::HttpResponse config(const event::HttpRequest& request);
  event::HttpResponse show_log_level(const event::HttpRequest& request);
  event::HttpResponse set_log_level_to(const event::HttpRequest& request);
  event::HttpResponse take_port(const event::HttpRequest& request);
  event::HttpResponse drain(const event::HttpRequest& request);

  event::HttpResponse metrics(const GatheredSnapshot& snapshot);
  event::HttpResponse doctor(const GatheredSnapshot& snapshot);

  std::vector<std::string> not_ready_reasons();
  std::vector<Fact> facts() const;
  DirectReport direct() const;
  bool draining() const;

  event::HttpServer& http_;
  AdminSources sources_;
  SnapshotGather gather_;
  uid_t owner_;
  std::string sockets_;  // names, with commas between; empty: there is none
  bool was_ready_ = false;
  TcpLosses tcp_losses_;  // as shown last
};

}  // namespace fairlead::admin
