// An HttpServer on a separate thread, stopped and joined at the end.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "event/http/http_server.h"

namespace fairlead::event {

class RunningServer {
 public:
  explicit RunningServer(HttpServer::Handler handler, const HttpLimits& limits = {})
      : server_(std::move(*HttpServer::create(limits, std::move(handler)))) {}

  HttpEndpoint listen(const std::string& where) {
    auto bound = server_->listen(*HttpEndpoint::parse(where));
    EXPECT_TRUE(bound) << where;
    return *bound;
  }
  void start() { EXPECT_TRUE(server_->start("test")); }
  void stop() { server_->stop(); }
  HttpServer& server() { return *server_; }

 private:
  std::unique_ptr<HttpServer> server_;
};

}  // namespace fairlead::event
