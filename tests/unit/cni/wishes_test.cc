// Goal: the plugin accepts exactly the values that the injection accepts. Method: the same values
// as in the tests of the injection and of the chart's admission policy.
#include "cni/plugin/wishes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/kubernetes_names.h"
#include "base/node_annotations.h"
#include "cni/plugin/json_text.h"

namespace fairlead::cni {
namespace {

TEST(Wishes, AgreeWithTheInjectionAboutEachValue) {
  std::ifstream file(FAIRLEAD_SOURCE_DIR "/tests/injection/values.txt");
  std::set<std::string> tried;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    const std::size_t name = line.find(' ') + 1;
    const std::size_t value = line.find(' ', name) + 1;
    const std::string key = line.substr(name, value - name - 1);
    if (std::none_of(kubernetes::kNodeAnnotations.begin(), kubernetes::kNodeAnnotations.end(),
                     [&key](const auto& info) { return info.name == key; }))
      continue;
    const std::string full = std::string(kubernetes::kAnnotationPrefix) + key;
    const std::string text = Json::parse(line.substr(value)).get<std::string>();
    const auto wishes = read_wishes({{full, text}});
    EXPECT_EQ(wishes.has_value(), line.starts_with("good ")) << line;
    EXPECT_TRUE(wishes || wishes.error().message.starts_with(full + ": ")) << line;
    tried.insert((wishes ? "good " : "bad ") + key);
  }
  EXPECT_EQ(tried.size(), 2 * kubernetes::kNodeAnnotations.size());
}

TEST(Wishes, GoWhereTheyBelong) {
  const auto wishes = read_wishes({{"fairlead.io/pnet-id", "neta"},
                                   {"fairlead.io/skip-inbound-ports", "1"},
                                   {"fairlead.io/skip-outbound-ports", "2-3"},
                                   {"fairlead.io/include-inbound-ports", "4"},
                                   {"fairlead.io/skip-subnets", "10.1.0.0/16"},
                                   {"fairlead.io/include-cidrs", "10.0.0.0/8,fd00::/8"}});
  ASSERT_TRUE(wishes);
  EXPECT_EQ(wishes->pnet_id, "NETA");
  EXPECT_EQ(wishes->skip_inbound, port_interval(1));
  EXPECT_EQ(wishes->include_inbound, port_interval(4));
  EXPECT_EQ(wishes->skip_outbound,
            merged({port_interval(2).front(), port_interval(3).front()}, sizeof(std::uint16_t)));
  EXPECT_EQ(wishes->skip_subnets.size(), 1U);
  EXPECT_EQ(wishes->include_cidrs->size(), 2U);
}

}  // namespace
}  // namespace fairlead::cni
