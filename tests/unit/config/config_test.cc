#include "config/config.h"

#include <gtest/gtest.h>

namespace fairlead::config {
namespace {

SocketAddress address(std::string_view text) { return SocketAddress::parse(text).value(); }

Cidr block(std::string_view text) { return Cidr::parse(text).value(); }

TEST(Exclusions, MatchTheBlockOfThePeerAndThePortOfTheServer) {
  Smc smc;
  smc.exclude = {{block("10.0.0.0/8"), {80, 443}}, {block("fd00::/8"), {}}, {std::nullopt, {22}}};
  EXPECT_TRUE(excluded(smc, address("10.1.2.3:5000"), 443));
  EXPECT_TRUE(excluded(smc, address("[::ffff:10.1.2.3]:5000"), 443));
  EXPECT_FALSE(excluded(smc, address("10.1.2.3:443"), 81));
  EXPECT_FALSE(excluded(smc, address("11.1.2.3:5000"), 80));
  EXPECT_TRUE(excluded(smc, address("[fd00::1]:5000"), 5000));
  EXPECT_TRUE(excluded(smc, address("11.1.2.3:5000"), 22));
  EXPECT_TRUE(excluded(smc, address("[2001:db8::1]:5000"), 22));
  EXPECT_FALSE(excluded(Smc{}, address("10.1.2.3:80"), 80));
}

TEST(RequiredConnections, AreThoseOfARuleOrAllWhereNoFallbackIsAllowed) {
  Config config;
  EXPECT_FALSE(required(config, address("10.1.2.3:5000"), 5432));
  config.smc.require = {{block("10.0.0.0/8"), {5432}}};
  EXPECT_TRUE(required(config, address("10.1.2.3:5000"), 5432));
  EXPECT_FALSE(required(config, address("10.1.2.3:5432"), 80));
  EXPECT_FALSE(required(config, address("11.1.2.3:5000"), 5432));
  config.fallback = FallbackPolicy::kDeny;
  EXPECT_TRUE(required(config, address("11.1.2.3:5000"), 80));
}

TEST(RequiredConnections, AreNotDeferredAndNeitherIsWhatSuchAProxyAccepts) {
  Config config;
  EXPECT_TRUE(defers(config, address("10.1.2.3:5432")));
  EXPECT_TRUE(accepts_deferred(config));
  config.smc.require = {{block("10.0.0.0/8"), {5432}}};
  EXPECT_FALSE(defers(config, address("10.1.2.3:5432")));
  EXPECT_TRUE(defers(config, address("10.1.2.3:80")));
  EXPECT_FALSE(accepts_deferred(config));
}

TEST(ConnectionRules, OverlapWhereSomeConnectionMatchesBoth) {
  const ConnectionRule ten{block("10.0.0.0/8"), {}};
  const ConnectionRule web{block("10.9.0.0/16"), {80, 443}};
  const ConnectionRule other_block{block("10.8.0.0/16"), {80}};
  const ConnectionRule database{std::nullopt, {5432}};
  const ConnectionRule six{block("fd00::/8"), {}};
  EXPECT_TRUE(ten.overlaps(web));
  EXPECT_TRUE(web.overlaps(ten));
  EXPECT_FALSE(web.overlaps(other_block));
  EXPECT_FALSE(web.overlaps(database));
  EXPECT_TRUE(database.overlaps(six));
  EXPECT_FALSE(ten.overlaps(six));
  EXPECT_EQ(to_string(web), "10.9.0.0/16 port 80 443");
  EXPECT_EQ(to_string(database), "port 5432");
}

TEST(Assumptions, GiveWayToExclusions) {
  Smc smc;
  smc.assume = {block("10.0.0.0/8")};
  smc.exclude = {{block("10.9.0.0/16"), {}}};
  EXPECT_TRUE(assumed(smc, address("10.1.2.3:80"), 80));
  EXPECT_FALSE(assumed(smc, address("10.9.2.3:80"), 80));
  EXPECT_FALSE(assumed(smc, address("192.0.2.1:80"), 80));
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
