#include "admin/server.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

#include "admin/api.h"
#include "base/assert.h"

namespace fairlead::admin {

Result<std::unique_ptr<AdminServer>> AdminServer::create(const AdminOptions& options,
                                                         AdminSources sources) {
  std::unique_ptr<AdminServer> server(new AdminServer());
  server->http_ = SMC_TRY(
      event::HttpServer::create(options.http, [admin = server.get()](event::HttpExchange exchange) {
        admin->api_->handle(std::move(exchange));
      }));
  server->api_ = std::make_unique<AdminApi>(*server->http_, std::move(sources),
                                            options.snapshot_timeout, ::geteuid());
  return server;
}

AdminServer::~AdminServer() { stop(); }

Result<event::HttpEndpoint> AdminServer::listen(const event::HttpEndpoint& endpoint) {
  SMC_ASSERT(!thread_.joinable());
  const event::HttpEndpoint bound = SMC_TRY(http_->listen(endpoint));
  if (!bound.is_tcp()) api_->add_socket(to_string(bound));
  return bound;
}

void AdminServer::start() {
  SMC_ASSERT(!thread_.joinable());
  thread_ = std::thread([http = http_.get()] {
    pthread_setname_np(pthread_self(), "fairlead-admin");
    // Signals are for the main thread; one that landed here would find nobody to handle it.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    http->run();
  });
}

void AdminServer::stop() {
  if (http_) http_->stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace fairlead::admin
