#include <chrono>

#include "unit/config/config_text.h"

namespace fairlead::config {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

Sources with(std::vector<Override> overrides) {
  overrides.insert(
      overrides.begin(),
      {"listeners", "[{name: a, direction: inbound, mode: redirect, listen: 0.0.0.0:1}]", "test"});
  return {std::nullopt, std::move(overrides)};
}

std::string change_error(const std::string& key, const std::string& text) {
  Config config = loaded(load_with_listener(""));
  const Config before = config;
  const auto result = apply_override(config, {key, text, "flag"});
  EXPECT_EQ(config, before) << "a refused change must change nothing";
  return result ? "no error" : to_string(result.error());
}

TEST(Overrides, ReplaceSingleValues) {
  const Config config = loaded(load(with({{"log.level", "debug", "x"},
                                          {"smc.handshake_timeout", "2s", "x"},
                                          {"admin.listen", "[::1]:9000", "x"},
                                          {"smc.max_links", "2", "x"},
                                          {"fallback", "deny", "x"}})));
  EXPECT_EQ(config.log.level, LogLevel::kDebug);
  EXPECT_EQ(config.smc.handshake_timeout, 2s);
  ASSERT_TRUE(config.admin.listen.has_value());
  EXPECT_EQ(to_string(*config.admin.listen), "[::1]:9000");
  EXPECT_EQ(config.smc.max_links, 2U);
  EXPECT_EQ(config.fallback, FallbackPolicy::kDeny);
}

TEST(Overrides, ReplaceListsAsAWhole) {
  Config config = loaded(load(with({{"smc.ueids", "A, B", "x"},
                                    {"smc.assume", "10.0.0.0/8,fd00::/8", "x"},
                                    {"smc.exclude", "10.1.0.0/16 port 80, 10.2.0.0/16", "x"}})));
  EXPECT_THAT(config.smc.ueids, ElementsAre("A", "B"));
  EXPECT_EQ(config.smc.assume.size(), 2U);
  ASSERT_EQ(config.smc.exclude.size(), 2U);
  EXPECT_THAT(config.smc.exclude[0].ports, ElementsAre(80));
  ASSERT_TRUE(apply_override(config, {"smc.exclude", "[{cidr: 10.9.0.0/16, ports: [1, 2]}]", "x"}));
  ASSERT_EQ(config.smc.exclude.size(), 1U);
  EXPECT_THAT(config.smc.exclude[0].ports, ElementsAre(1, 2));
  ASSERT_TRUE(apply_override(config, {"smc.assume", "", "x"}));
  EXPECT_TRUE(config.smc.assume.empty());
}

TEST(Overrides, TheLaterOneWins) {
  EXPECT_EQ(
      loaded(load(with({{"log.level", "debug", "x"}, {"log.level", "error", "y"}}))).log.level,
      LogLevel::kError);
}

TEST(Overrides, NameTheirOriginInErrors) {
  EXPECT_EQ(only_error(load(with({{"log.level", "loud", "environment FAIRLEAD_LOG_LEVEL"}}))),
            "environment FAIRLEAD_LOG_LEVEL: log.level: \"loud\" is unknown; allowed: trace, "
            "debug, info, "
            "warn, error or off");
  EXPECT_EQ(only_error(load(with({{"log.levle", "info", "flag --set"}}))),
            "flag --set: log.levle: there is no such key, did you mean \"log.level\"?");
  EXPECT_THAT(only_error(load(with({{"smc.exclude", "[{cidr: 10.0.0.0/8", "flag --set"}}))),
              HasSubstr("smc.exclude: not valid YAML"));
}

TEST(Overrides, ContradictionsAreFoundAfterTheLastOne) {
  EXPECT_TRUE(
      load(with({{"buffers.size_min", "1MiB", "x"}, {"buffers.size", "1MiB", "x"}})).has_value());
  EXPECT_EQ(only_error(load(with({{"buffers.size_min", "1MiB", "flag"}}))),
            "flag: buffers.size_min: size_min 1MiB is more than size 512KiB; allowed: size_min up "
            "to size");
}

TEST(Overrides, ReplacedListenersLeaveNoTraceOfTheOldOnes) {
  Config config = loaded(load_with_listener(""));
  ASSERT_TRUE(apply_override(
      config,
      {"listeners", "[{name: b, direction: inbound, mode: redirect, listen: 0.0.0.0:1}]", "x"}));
  ASSERT_EQ(config.listeners.size(), 1U);
  EXPECT_EQ(config.listeners[0].name, "b");
  EXPECT_FALSE(config.listeners[0].upstream.has_value());
  EXPECT_THAT(
      change_error("listeners", "[{name: b, direction: inbound, mode: static, listen: 0.0.0.0:1}]"),
      HasSubstr("listeners[0]: mode static lacks an upstream"));
}

TEST(Overrides, ARefusedChangeChangesNothing) {
  EXPECT_THAT(change_error("smc.max_links", "9"), HasSubstr("too large"));
  EXPECT_THAT(change_error("smc.max_links", ""), HasSubstr("is empty"));
  EXPECT_THAT(change_error("smc", "{}"), HasSubstr("there is no such key"));
  EXPECT_THAT(change_error("", "x"), HasSubstr("there is no such key"));
  EXPECT_THAT(change_error("listeners", "[]"), HasSubstr("has 0 items"));
  EXPECT_THAT(change_error("smc.assume", "10.0.0.0/8,"), HasSubstr("smc.assume[1]"));
  EXPECT_THAT(change_error("log.level", std::string(2'000'000, 'x')), HasSubstr("too long"));
}

TEST(Overrides, ALoweredDefaultDoesNotBlockALaterChange) {
  Config config = loaded(load_with_listener(""));
  ASSERT_TRUE(apply_override(config, {"buffers.size", "64KiB", "x"}));
  EXPECT_EQ(config.buffers.publish, 64U * 1024);
}

TEST(Environment, EveryKeyHasAVariable) {
  const char* const environment[] = {"PATH=/bin",
                                     "FAIRLEAD_LOG_LEVEL=debug",
                                     "FAIRLEAD_CONCURRENCY=2",
                                     "FAIRLEAD_ADMIN_LISTEN=",
                                     "FAIRLEAD_DEVICES_SHM_BROKER=@s",
                                     "FAIRLEAD_SMC_MAX_CONNECTIONS_PER_GROUP=16",
                                     nullptr};
  const EnvironmentOverrides found = overrides_from_environment(environment);
  EXPECT_THAT(found.warnings, ElementsAre());
  const Config config = loaded(load(with(found.overrides)));
  EXPECT_EQ(config.log.level, LogLevel::kDebug);
  EXPECT_EQ(config.concurrency, 2U);
  EXPECT_FALSE(config.admin.listen.has_value());
  EXPECT_EQ(config.devices.shm.broker, "@s");
  EXPECT_EQ(config.smc.max_connections_per_group, 16U);
}

TEST(Environment, OurPnetVariableWinsOverTheCommonOne) {
  const char* const one[] = {"SMC_PNET_ID=neta", nullptr};
  EXPECT_EQ(loaded(load(with(overrides_from_environment(one).overrides))).pnet.id, "NETA");
  const char* const both[] = {"FAIRLEAD_PNET_ID=netb", "SMC_PNET_ID=neta", nullptr};
  EXPECT_EQ(loaded(load(with(overrides_from_environment(both).overrides))).pnet.id, "NETB");
}

TEST(Environment, AnEmptyVariableIsUnsetUnlessEmptyMeansSomething) {
  const char* const environment[] = {
      "FAIRLEAD_LOG_LEVEL=", "FAIRLEAD_SMC_ASSUME=", "FAIRLEAD_ADMIN_SOCKET=", nullptr};
  const EnvironmentOverrides found = overrides_from_environment(environment);
  ASSERT_EQ(found.overrides.size(), 1U);
  EXPECT_EQ(found.overrides[0].key, "admin.socket");
}

TEST(Environment, StrangersAreIgnoredAndSlipsAreNamed) {
  const char* const environment[] = {"FAIRLEAD_INJECTOR_SERVICE_HOST=10.0.0.1",
                                     "FAIRLEAD_PORT=tcp://10.0.0.1:9443",
                                     "FAIRLEAD_LOG_LEVLE=debug",
                                     "NOEQUALS",
                                     "=x",
                                     nullptr};
  const EnvironmentOverrides found = overrides_from_environment(environment);
  EXPECT_TRUE(found.overrides.empty());
  EXPECT_THAT(
      found.warnings,
      ElementsAre(
          "FAIRLEAD_LOG_LEVLE names no key and is ignored, did you mean FAIRLEAD_LOG_LEVEL?"));
  EXPECT_TRUE(overrides_from_environment(nullptr).overrides.empty());
}

TEST(Flags, AreKeyAndValue) {
  const auto change = override_from_flag("smc.assume=10.0.0.0/8");
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->key, "smc.assume");
  EXPECT_EQ(change->text, "10.0.0.0/8");
  EXPECT_EQ(override_from_flag("admin.socket=")->text, "");
  EXPECT_EQ(override_from_flag("a=b=c")->text, "b=c");
  EXPECT_FALSE(override_from_flag("log.level").has_value());
  EXPECT_FALSE(override_from_flag("=x").has_value());
}

}  // namespace
}  // namespace fairlead::config
