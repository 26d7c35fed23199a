#include "admin/server.h"

#include <unistd.h>

#include <utility>

#include "admin/api.h"

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
  const event::HttpEndpoint bound = SMC_TRY(http_->listen(endpoint));
  if (!bound.is_tcp()) api_->add_socket(to_string(bound));
  return bound;
}

Result<void> AdminServer::start() { return http_->start("fairlead-admin"); }

void AdminServer::stop() {
  if (http_) http_->stop();
}

}  // namespace fairlead::admin
