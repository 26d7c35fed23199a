// fairleadctl against an admin server with a canned proxy.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "admin/server.h"
#include "unit/admin/canned.h"
#include "unit/ctl/run_with.h"

namespace fairlead::ctl {

class Fairleadctl : public testing::Test {
 protected:
  Fairleadctl() : address_("@fairlead-ctl-test-" + std::to_string(::getpid())) {
    start(std::chrono::seconds(10));
  }
  ~Fairleadctl() override { ::unsetenv("FAIRLEAD_ADMIN"); }

  void start(Duration snapshot_timeout) {
    server_.reset();
    server_ = std::move(*admin::AdminServer::create(
        {.snapshot_timeout = snapshot_timeout, .http = {}}, proxy_.sources()));
    EXPECT_TRUE(server_->listen(*event::HttpEndpoint::parse(address_)));
    ASSERT_TRUE(server_->start());
  }

  Outcome ask(std::vector<const char*> arguments) {
    arguments.insert(arguments.end(), {"--admin", address_.c_str()});
    return run_with(std::move(arguments));
  }

  admin::CannedProxy proxy_;
  std::string address_;
  std::unique_ptr<admin::AdminServer> server_;
};

}  // namespace fairlead::ctl
