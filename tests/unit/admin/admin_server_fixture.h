// An admin server on its own abstract socket and on a TCP port, with a simulated proxy behind it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "admin/server.h"
#include "ctl/http_client.h"
#include "unit/admin/canned.h"

namespace fairlead::admin {

using nlohmann::json;

class AdminServerTest : public testing::Test {
 protected:
  void SetUp() override { start(std::chrono::seconds(10)); }

  void start(Duration snapshot_timeout) { start(snapshot_timeout, proxy_.sources()); }

  void start(Duration snapshot_timeout, AdminSources sources) {
    server_.reset();
    server_ = std::move(*AdminServer::create({.snapshot_timeout = snapshot_timeout, .http = {}},
                                             std::move(sources)));
    endpoint_.emplace(*event::HttpEndpoint::parse(socket_));
    ASSERT_TRUE(server_->listen(*endpoint_));
    auto tcp = server_->listen(*event::HttpEndpoint::parse("127.0.0.1:0"));
    ASSERT_TRUE(tcp);
    tcp_.emplace(*tcp);
    ASSERT_TRUE(server_->start());
  }

  event::HttpReply ask(const char* method, const std::string& target) {
    return ask(*endpoint_, method, target);
  }
  event::HttpReply ask(const event::HttpEndpoint& endpoint, const char* method,
                       const std::string& target) {
    auto reply = ctl::http_request(endpoint, method, target, std::chrono::seconds(120));
    EXPECT_TRUE(reply) << target << ": " << (reply ? "" : to_string(reply.error()));
    return reply ? *reply : event::HttpReply();
  }
  event::HttpReply get(const std::string& target) { return ask("GET", target); }
  json get_json(const std::string& target) { return json::parse(get(target).body); }

  std::string error_of(const event::HttpReply& reply) {
    return json::parse(reply.body).at("error").get<std::string>();
  }

  CannedProxy proxy_;
  std::unique_ptr<AdminServer> server_;
  const std::string socket_ = "@fairlead-admin-test-" + std::to_string(::getpid());
  std::optional<event::HttpEndpoint> endpoint_;  // the socket
  std::optional<event::HttpEndpoint> tcp_;
};

}  // namespace fairlead::admin
