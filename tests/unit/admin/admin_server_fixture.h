// An admin server on a port of its own, with a canned proxy behind it.
#pragma once

#include <gtest/gtest.h>

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

  void start(Duration snapshot_timeout, const char* where = "127.0.0.1:0") {
    start(snapshot_timeout, proxy_.sources(), where);
  }

  void start(Duration snapshot_timeout, AdminSources sources, const char* where = "127.0.0.1:0") {
    server_.reset();
    server_ = std::move(*AdminServer::create({.snapshot_timeout = snapshot_timeout, .http = {}},
                                             std::move(sources)));
    auto bound = server_->listen(*event::HttpEndpoint::parse(where));
    ASSERT_TRUE(bound);
    endpoint_.emplace(*bound);
    server_->start();
  }

  ctl::HttpReply ask(const char* method, const std::string& target) {
    auto reply = ctl::http_request(*endpoint_, method, target, std::chrono::seconds(20));
    EXPECT_TRUE(reply) << target << ": " << (reply ? "" : to_string(reply.error()));
    return reply ? *reply : ctl::HttpReply();
  }
  ctl::HttpReply get(const std::string& target) { return ask("GET", target); }
  json get_json(const std::string& target) { return json::parse(get(target).body); }

  std::string error_of(const ctl::HttpReply& reply) {
    return json::parse(reply.body).at("error").get<std::string>();
  }

  CannedProxy proxy_;
  std::unique_ptr<AdminServer> server_;
  std::optional<event::HttpEndpoint> endpoint_;
};

}  // namespace fairlead::admin
