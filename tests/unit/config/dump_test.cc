#include "config/dump.h"

#include "unit/config/config_text.h"

namespace fairlead::config {
namespace {

using testing::HasSubstr;

// Loading what was written must give the same value back.
void expect_round_trip(const Config& config) {
  const std::string text = to_yaml(config);
  const LoadResult again = load_text(text, "dump");
  ASSERT_TRUE(again.has_value()) << only_error(again) << "\n" << text;
  EXPECT_EQ(*again, config) << text;
}

TEST(Dump, OfTheDefaultsLoadsToTheDefaults) { expect_round_trip(loaded(load_with_listener(""))); }

TEST(Dump, LosesNoValue) {
  Config config = loaded(load_text(R"(
concurrency: 3
listeners:
  - {name: 0-a, direction: inbound, mode: redirect, listen: "[::]:4543"}
  - {name: b, direction: outbound, mode: static, listen: 127.0.0.1:0, upstream: "[fd00::1]:80"}
  - {name: "null", direction: outbound, mode: tproxy, listen: 0.0.0.0:9}
smc:
  ueids: [A, B.C]
  test_link_interval: 0
  group_idle_timeout: 90s
  assume: [10.0.0.0/8, "fd00::/8", "::/0"]
  exclude: [10.1.0.0/16, "::1 port 80 81"]
  host_name: "~"
buffers: {size: 1MiB, publish: 5001}
admin: {listen: "", socket: ""}
latency: {spin: 3us}
pnet: {id: "0123"}
)",
                                   "t"));
  expect_round_trip(config);
  for (const char* name :
       {"null", "true", "-", "a:", "#x", "\"", "\\", "'", "{}", "a#b", "!x", "&x", "0x1"}) {
    config.smc.host_name = name;
    expect_round_trip(config);
  }
}

TEST(Dump, ReadsLikeTheSampleFile) {
  const std::string text = to_yaml(loaded(load_with_listener("")));
  EXPECT_THAT(text,
              HasSubstr("concurrency: 0\nlisteners:\n  - name: web\n    direction: outbound\n"));
  EXPECT_THAT(text, HasSubstr("smc:\n  enabled: true\n  version: auto\n  ueids: [FAIRLEAD]\n"));
  EXPECT_THAT(text, HasSubstr("  exclude: []\n"));
  EXPECT_THAT(text,
              HasSubstr("devices:\n  shm:\n    enabled: true\n    broker: \"@fairlead-proxy\"\n"));
  EXPECT_THAT(text, HasSubstr("admin:\n  listen: 127.0.0.1:4590\n  socket: \"@fairlead-admin\"\n"));
  EXPECT_THAT(text, HasSubstr("latency:\n  spin: 50us\n"));
}

}  // namespace
}  // namespace fairlead::config
