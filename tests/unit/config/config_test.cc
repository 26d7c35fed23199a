#include "config/config.h"

#include <gtest/gtest.h>

namespace fairlead::config {
namespace {

SocketAddress address(std::string_view text) {
  const Result<SocketAddress> parsed = SocketAddress::parse(text);
  EXPECT_TRUE(parsed.has_value()) << text;
  return parsed.value_or(SocketAddress());
}

Cidr block(std::string_view text) {
  const Result<Cidr> parsed = Cidr::parse(text);
  EXPECT_TRUE(parsed.has_value()) << text;
  return parsed.value_or(Cidr());
}

TEST(Exclusions, MatchBlockAndPort) {
  Smc smc;
  smc.exclude = {{block("10.0.0.0/8"), {80, 443}}, {block("fd00::/8"), {}}};
  EXPECT_TRUE(excluded(smc, address("10.1.2.3:443")));
  EXPECT_TRUE(excluded(smc, address("[::ffff:10.1.2.3]:443")));
  EXPECT_FALSE(excluded(smc, address("10.1.2.3:81")));
  EXPECT_FALSE(excluded(smc, address("11.1.2.3:80")));
  EXPECT_TRUE(excluded(smc, address("[fd00::1]:5000")));
  EXPECT_FALSE(excluded(Smc{}, address("10.1.2.3:80")));
}

TEST(Assumptions, GiveWayToExclusions) {
  Smc smc;
  smc.assume = {block("10.0.0.0/8")};
  smc.exclude = {{block("10.9.0.0/16"), {}}};
  EXPECT_TRUE(assumed(smc, address("10.1.2.3:80")));
  EXPECT_FALSE(assumed(smc, address("10.9.2.3:80")));
  EXPECT_FALSE(assumed(smc, address("192.0.2.1:80")));
}

TEST(WorkerCount, IsWhatWasAskedForOrWhatTheContainerAllows) {
  Config config;
  config.concurrency = 7;
  EXPECT_EQ(worker_count(config), 7U);
  config.concurrency = 0;
  EXPECT_GE(worker_count(config), 1U);
  EXPECT_LE(worker_count(config), kConcurrencyMax);
}

}  // namespace
}  // namespace fairlead::config
