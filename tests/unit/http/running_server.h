// An HttpServer on a separate thread, stopped and joined at the end.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "event/http/http_server.h"

namespace fairlead::event {

// Each request has this answer.
inline HttpServer::Handler always(const std::string& body) {
  return [body](HttpExchange exchange) { exchange.respond({.body = body}); };
}

class RunningServer {
 public:
  explicit RunningServer(HttpServer::Handler handler, const HttpLimits& limits = {})
      : server_(std::move(*HttpServer::create(limits, std::move(handler)))) {}

  // Begins to serve this address.
  HttpEndpoint serve(const std::string& where) {
    HttpEndpoint bound = listen(where);
    start();
    return bound;
  }
  HttpEndpoint listen(const std::string& where) {
    auto bound = server_->listen(*HttpEndpoint::parse(where));
    EXPECT_TRUE(bound) << where;
    return *bound;
  }
  void start() { EXPECT_TRUE(server_->start("test")); }
  void stop() { server_->stop(); }
  HttpServer& server() { return *server_; }
  std::uint64_t refused(HttpRefusal reason) const { return server_->refusals().count(reason); }

 private:
  std::unique_ptr<HttpServer> server_;
};

}  // namespace fairlead::event
