// The admin server: the thread and the sockets behind /metrics, the probes, and fairleadctl. The
// routes are listed at the top of api.h.
//
// It reads the workers' counters at any time and asks for everything else by a message to the
// worker's own loop; it never stops a worker and takes no lock of one.
#pragma once

#include <chrono>
#include <memory>

#include "admin/sources.h"
#include "base/result.h"
#include "base/time.h"
#include "event/http/http_endpoint.h"
#include "event/http/http_server.h"

namespace fairlead::admin {

class AdminApi;

// How long a request waits for the workers. A worker turns its loop within milliseconds, so one
// that is silent for this long is stuck; the answer then comes without it and says so.
inline constexpr Duration kSnapshotTimeout = std::chrono::seconds(1);

struct AdminOptions {
  Duration snapshot_timeout = kSnapshotTimeout;
  event::HttpLimits http;
};

// Use: create(), listen() on each address, start(); stop() before the workers are destroyed, and
// destroy after them, because their late replies refer to it.
class AdminServer {
 public:
  static Result<std::unique_ptr<AdminServer>> create(const AdminOptions& options,
                                                     AdminSources sources);
  ~AdminServer();  // stops
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  // REQUIRES: start() was not called yet. Returns the endpoint with the port that the kernel chose.
  Result<event::HttpEndpoint> listen(const event::HttpEndpoint& endpoint);

  // Errors: those of HttpServer::start().
  Result<void> start();

  // Ends the thread. Open connections are closed when the server is destroyed, unanswered ones
  // too.
  void stop();

 private:
  AdminServer() = default;

  std::unique_ptr<event::HttpServer> http_;
  std::unique_ptr<AdminApi> api_;  // dies before http_: it holds unanswered exchanges
};

}  // namespace fairlead::admin
