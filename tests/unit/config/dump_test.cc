// Configurations as files: what is written can be loaded again, and config/proxy.yaml is the
// reference. It must have every key and no other, and every default in it must be correct.
#include "config/dump.h"

#include <yaml-cpp/yaml.h>

#include <fstream>
#include <sstream>

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

constexpr const char* kSample = FAIRLEAD_SOURCE_DIR "/config/proxy.yaml";

TEST(SampleFile, HoldsTheDefaults) {
  const Config config = loaded(load_file(kSample));
  EXPECT_EQ(config.listeners.size(), 2U);
  Config defaults;
  defaults.listeners = config.listeners;
  EXPECT_EQ(config, defaults);
}

TEST(SampleFile, HoldsEveryKeyThatTheLoaderKnows) {
  std::ifstream file(kSample);
  std::stringstream text;
  text << file.rdbuf();
  for (const std::string& key : known_keys()) {
    if (const std::size_t item = key.find("[]."); item != std::string::npos) {
      // Keys of list items may be in an example inside a comment.
      EXPECT_NE(text.str().find(" " + key.substr(item + 3) + ": "), std::string::npos) << key;
      continue;
    }
    YAML::Node node = YAML::LoadFile(kSample);
    std::istringstream levels(key);
    for (std::string level; std::getline(levels, level, '.');) {
      ASSERT_TRUE(node[level].IsDefined()) << key;
      node.reset(YAML::Node(node[level]));
    }
  }
}

// Users copy the examples in comments, so these must be correct too.
TEST(SampleFile, HoldsExamplesThatLoad) {
  std::ifstream file(kSample);
  std::string text;
  bool in_listener = false;
  for (std::string line; std::getline(file, line);) {
    in_listener = line.starts_with("# - name:") || (in_listener && line.starts_with("#   "));
    text += in_listener ? " " + line.substr(1) + "\n" : line + "\n";
  }
  const Config config = loaded(load_text(text, "sample with its example"));
  ASSERT_EQ(config.listeners.size(), 3U);
  EXPECT_EQ(config.listeners[2].name, "cache");
}

}  // namespace
}  // namespace fairlead::config
