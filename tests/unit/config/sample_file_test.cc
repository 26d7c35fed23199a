// Goal: config/proxy.yaml is the reference of the configuration. It must have every key and no
// other, and every default in it must be correct.
#include <yaml-cpp/yaml.h>

#include <fstream>
#include <sstream>

#include "unit/config/config_text.h"

namespace fairlead::config {
namespace {

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
