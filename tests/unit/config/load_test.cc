#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "unit/config/config_text.h"

namespace fairlead::config {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Load, OneListenerIsEnoughAndTheRestIsDefaultAlsoOfAnEmptySection) {
  const Config config = loaded(load_with_listener(""));
  ASSERT_EQ(config.listeners.size(), 1U);
  const Listener& listener = config.listeners[0];
  EXPECT_EQ(listener.name, "web");
  EXPECT_EQ(listener.direction, Direction::kOutbound);
  EXPECT_EQ(listener.mode, ListenerMode::kStatic);
  EXPECT_EQ(to_string(listener.listen), "127.0.0.1:8080");
  ASSERT_TRUE(listener.upstream.has_value());
  EXPECT_EQ(to_string(*listener.upstream), "10.0.0.1:80");
  Config defaults;
  defaults.listeners = config.listeners;
  EXPECT_EQ(config, defaults);
  EXPECT_EQ(loaded(load_with_listener("smc:\n  # enabled: false\nlog:\n")).smc, Smc{});
}

TEST(Load, ReadsEveryKindOfValue) {
  const Config config = loaded(load_with_listener(R"(
concurrency: 4
smc:
  enabled: false
  ueids: [peer-1, SMCV2.x]
  test_link_interval: 0
  assume: [10.0.0.0/8, "fd00::/8", 192.0.2.1]
  option_program: external
  host_name: node-7
buffers: {size: 2MiB, publish: 65536}
admin: {listen: "", socket: /run/f.sock}
log: {level: debug, format: json}
pnet: {id: neta}
)"));
  EXPECT_EQ(config.concurrency, 4U);
  EXPECT_FALSE(config.smc.enabled);
  EXPECT_THAT(config.smc.ueids, ElementsAre("PEER-1", "SMCV2.X"));
  EXPECT_EQ(config.smc.test_link_interval, 0s);
  ASSERT_EQ(config.smc.assume.size(), 3U);
  EXPECT_EQ(to_string(config.smc.assume[1]), "fd00::/8");
  EXPECT_EQ(to_string(config.smc.assume[2]), "192.0.2.1/32");
  EXPECT_EQ(config.smc.option_program, OptionProgram::kExternal);
  EXPECT_EQ(config.smc.host_name, "node-7");
  EXPECT_EQ(config.buffers.size, 2U << 20);
  EXPECT_EQ(config.buffers.publish, 65536U);
  EXPECT_FALSE(config.admin.listen.has_value());
  EXPECT_EQ(config.admin.socket, "/run/f.sock");
  EXPECT_EQ(config.log.level, LogLevel::kDebug);
  EXPECT_EQ(config.log.format, LogFormat::kJson);
  EXPECT_EQ(config.pnet.id, "NETA");
}

TEST(Load, TakesAnExclusionInThreeSpellings) {
  const Config config =
      loaded(load_with_listener("smc: {exclude: [10.1.0.0/16, 10.2.0.0/16 port 80 443, {cidr: "
                                "10.3.0.0/16, ports: [25]}, {cidr: "
                                "10.4.0.0/16}]}"));
  ASSERT_EQ(config.smc.exclude.size(), 4U);
  EXPECT_THAT(config.smc.exclude[0].ports, ElementsAre());
  EXPECT_THAT(config.smc.exclude[1].ports, ElementsAre(80, 443));
  EXPECT_EQ(to_string(config.smc.exclude[1]), "10.2.0.0/16 port 80 443");
  EXPECT_THAT(config.smc.exclude[2].ports, ElementsAre(25));
  EXPECT_EQ(to_string(config.smc.exclude[3]), "10.4.0.0/16");
}

TEST(Load, ReportsEveryErrorWithItsPlace) {
  const LoadResult result = load_with_listener(
      "concurrency: 65\n"
      "smc:\n"
      "  max_links: 4\n"
      "  handshake_timeout: 6\n"
      "log:\n"
      "  level: verbose\n");
  EXPECT_THAT(
      errors_of(result),
      ElementsAre(
          "test.yaml:2:14: concurrency: \"65\" is too large; allowed: a whole number from 0 to "
          "64",
          "test.yaml:4:14: smc.max_links: \"4\" is too large; allowed: a whole number from 0 to "
          "3",
          "test.yaml:5:22: smc.handshake_timeout: \"6\" has no unit; allowed: a time from 100ms "
          "to 1m, with unit us, ms, s, m or h",
          "test.yaml:7:10: log.level: \"verbose\" is unknown; allowed: trace, debug, info, warn, "
          "error or off"));
}

TEST(Load, SuggestsTheKeyOrValueThatWasMeant) {
  expect_error("log: {levle: info}",
               "\"levle\" is no key of log, did you mean \"level\"?; allowed: level, format");
  expect_error("smc: {max-links: 2}", "did you mean \"max_links\"?");
  expect_error("test_link_interval: 10s", "did you mean \"smc.test_link_interval\"?");
  expect_error("devices: {shn: {}}", "is no key of devices, did you mean \"shm\"?");
  expect_error("colour: red",
               "\"colour\" is no key of this file; allowed: concurrency, listeners, smc,");
  expect_error("\"<<\": {a: 1}", "is no key of this file");
  expect_error("fallback: alow", "did you mean \"allow\"?");
}

TEST(Load, RefusesRepeatedKeys) {
  EXPECT_EQ(only_error(load_with_listener("fallback: allow\nfallback: deny\n")),
            "test.yaml:3:1: fallback: is there twice, first in line 2; allowed: each key once");
  EXPECT_EQ(only_error(load_with_listener("log: {level: info, level: info}")),
            "test.yaml:2:20: log.level: is there twice, first in line 2; allowed: each key once");
}

TEST(Load, RefusesValuesOfTheWrongType) {
  expect_error("concurrency: [1]", "concurrency: is a list; allowed:");
  expect_error("concurrency: \"4\"", "is text in quotes");
  expect_error("concurrency:", "is without a value");
  expect_error("smc: [1]", "smc: is a list; allowed: a mapping");
  expect_error("smc: on", "smc: is a single value");
  expect_error("smc: {enabled: yes}", "allowed: true or false");
  expect_error("smc: {ueids: FAIRLEAD}",
               "smc.ueids: is a single value; allowed: a list of 1 to 8 items");
  expect_error("smc: {assume: [[10.0.0.0/8]]}", "smc.assume[0]: is a list");
  EXPECT_THAT(only_error(load_text("just text", "t")),
              HasSubstr("t:1:1: is a single value; allowed: a mapping"));
}

TEST(Load, RefusesListsThatAreTooShortOrTooLongAndAnEmptyFile) {
  expect_error("smc: {ueids: []}", "has 0 items");
  expect_error("smc: {ueids: [A, B, C, D, E, F, G, H, I]}",
               "has 9 items; allowed: a list of 1 to 8 items");
  EXPECT_THAT(only_error(load_text("listeners: []", "t")), HasSubstr("listeners: has 0 items"));
  EXPECT_EQ(only_error(load_text("", "empty.yaml")),
            "empty.yaml: listeners: there is no listener; allowed: 1 to 64 of them");
}

struct Range {
  std::string key;
  std::vector<std::string> legal, illegal;
};

auto load_key(std::string key, std::string_view value) {
  std::string text;
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.')) {
    text += key.substr(0, dot) + ": {";
    key.erase(0, dot + 1);
  }
  const auto depth = static_cast<std::size_t>(std::count(text.begin(), text.end(), '{'));
  return load_with_listener(text + key + ": " + std::string(value) + std::string(depth, '}') +
                            "\n");
}

void expect_range(const Range& range) {
  for (const std::string& value : range.legal)
    EXPECT_TRUE(load_key(range.key, value).has_value())
        << range.key << " " << value << ": " << only_error(load_key(range.key, value));
  for (const std::string& value : range.illegal) {
    const std::string error = only_error(load_key(range.key, value));
    EXPECT_THAT(error, HasSubstr(range.key)) << value;
    EXPECT_THAT(error, HasSubstr("; allowed: ")) << value;
  }
}

// Of a setting that has a row: the values at both sides of each limit.
Range range_of(const PodSetting& row) {
  if (!row.is_number()) {
    Range range{std::string(row.key), {}, {"none_of_them"}};
    for (const std::string_view choice : row.choices)
      if (!choice.empty()) range.legal.emplace_back(choice);
    return range;
  }
  const std::string below = row.lowest() == 0 ? "-1" : std::to_string(row.lowest() - 1);
  return {std::string(row.key),
          {std::to_string(row.lowest()), std::to_string(row.limits.min),
           std::to_string(row.limits.max)},
          {below, std::to_string(row.limits.max + 1), "x"}};
}

TEST(Load, KeepsTheRowsOfSettingsOfPods) {
  for (const PodSetting& row : kPodSettings) {
    EXPECT_EQ(loaded(load_key(std::string(row.key), row.usual)), loaded(load_with_listener("")))
        << row.key;
    expect_range(range_of(row));
  }
  EXPECT_THAT(only_error(load_key("smc.defer_bytes", "1023")), HasSubstr("is too small"));
  EXPECT_THAT(only_error(load_key("smc.path_mtu", "1500")), HasSubstr("is no path MTU"));
}

// One line for each other range of config.h: the smallest and the largest value that pass, and
// their neighbours.
TEST(Load, KeepsEveryRange) {
  const std::vector<Range> ranges = {
      {"concurrency", {"0", "64"}, {"65", "-1"}},
      {"smc.group_idle_timeout", {"0", "24h"}, {"25h", "-1s"}},
      {"smc.test_link_interval", {"0", "1s", "1h"}, {"999ms", "61m"}},
      {"smc.handshake_timeout", {"100ms", "60s"}, {"99ms", "61s", "0"}},
      {"smc.defer_turns", {"1", "1000"}, {"0", "1001"}},
      {"smc.defer_time", {"1ms", "1h"}, {"0", "61m"}},
      {"smc.ueids",
       {"[a.b-c]", "[ABCDEFGHIJKLMNOPQRSTUVWXYZ012345]"},
       {"[ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456]", "[\"\"]", "[a_b]", "[.a]", "[A, a]"}},
      {"smc.gid_subnets", {"[]", "[10.9.0.0/16, \"fd00::/8\"]"}, {"[10.9.0.1/16]", "[eth0]"}},
      {"smc.gid_index", {"auto", "0", "255"}, {"256", "-1", "first"}},
      {"smc.trusted_fabric", {"true", "false"}, {"yes", "1", "\"\""}},
      {"smc.partition_key", {"auto", "0x1", "0x7fff"}, {"0", "0x0", "0x8000", "1", "0x1g"}},
      {"smc.host_name", {"\"\"", "a.b"}, {"\"a b\"", "012345678901234567890123456789012"}},
      {"devices.shm.broker",
       {"\"@a\"", "\"@" + std::string(103, 'a') + "\""},
       {"a", "\"@\"", "/a", "\"\"", "\"@a b\"", "\"@" + std::string(104, 'a') + "\""}},
      {"buffers.size", {"16KiB", "512MiB"}, {"8KiB", "1GiB", "48KiB", "16385", "0"}},
      {"buffers.size_min", {"16KiB", "512KiB"}, {"8KiB", "17KiB"}},
      {"buffers.publish", {"4KiB", "5000", "512KiB"}, {"4095", "513MiB"}},
      {"buffers.idle_timeout", {"0s", "30s", "24h"}, {"-1s", "25h"}},
      {"memory.limit", {"1MiB", "1024GiB"}, {"1048575", "1025GiB"}},
      {"limits.connections", {"1", "1000000"}, {"0", "1000001"}},
      {"limits.handshakes", {"1", "10000"}, {"0", "65537"}},
      {"limits.handshakes_per_peer", {"1", "65536"}, {"0", "65537"}},
      {"limits.dial_timeout", {"10ms", "5m"}, {"9ms", "301s", "0"}},
      {"tcp.keepalive_idle", {"0", "1s", "1h"}, {"999ms", "3601s"}},
      {"tcp.keepalive_interval", {"1s", "10m"}, {"0", "999ms", "601s"}},
      {"tcp.keepalive_count", {"1", "100"}, {"0", "101"}},
      {"tcp.user_timeout", {"0", "1s", "1h"}, {"999ms", "3601s"}},
      {"latency.spin", {"0", "1us", "1ms"}, {"1001us"}},
      {"latency.spin_share_max", {"0", "100"}, {"101"}},
      {"admin.listen", {"\"\"", "0.0.0.0:0", "\"[::1]:1\""}, {"localhost:80", "1.2.3.4", "::1:80"}},
      {"admin.socket", {"\"\"", "/a", "\"@a\""}, {"a", "/", "\"@\"", "\"@a b\""}},
      {"drain.timeout", {"0", "1h"}, {"2h"}},
      {"pnet.id", {"\"\"", "a", "ABCDEFGH01234567"}, {"ABCDEFGH012345678", "a-b"}},
  };
  for (const Range& range : ranges) expect_range(range);
}

TEST(Load, RefusesBadBlocksAndPorts) {
  for (const char* value :
       {"10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "host", "\"fd00::/129\"", "\"\""}) {
    const std::string error =
        only_error(load_with_listener("smc: {assume: [" + std::string(value) + "]}"));
    EXPECT_THAT(error, HasSubstr("smc.assume[0]: ")) << value;
  }
  for (const char* value :
       {"10.0.0.0/8 80", "10.0.0.0/8 port", "10.0.0.0/8 port 0", "10.0.0.0/8 port x", "x port 80",
        "port", "port 0", "port 80 10.0.0.0/8", "{ports: []}", "{}", "{cidr: \"\", ports: [80]}",
        "{cidr: 10.0.0.0/8, ports: [70000]}", "\"\""}) {
    for (const std::string list : {"exclude", "require"}) {
      const std::string error =
          only_error(load_with_listener("smc: {" + list + ": [" + std::string(value) + "]}"));
      EXPECT_THAT(error, HasSubstr("smc." + list + "[0]")) << value;
    }
  }
}

TEST(Load, RulesThatContradictEachOtherAreNamed) {
  EXPECT_THAT(only_error(load_with_listener(
                  "smc: {exclude: [192.0.2.0/24, 10.1.0.0/16 port 80 5432], require: [port 22, "
                  "10.0.0.0/8 port 5432]}")),
              AllOf(HasSubstr("smc.require[1]: \"10.0.0.0/8 port 5432\" and smc.exclude[1], "
                              "\"10.1.0.0/16 port 80 5432\", have connections in common"),
                    HasSubstr("allowed: ")));
  expect_error("smc: {enabled: false, require: [10.0.0.0/8]}",
               "smc.require: no connection could be SMC-R");
  const Config config = loaded(load_with_listener(
      "smc: {exclude: [10.1.0.0/16 port 80], require: [port 22, {ports: [5432]}]}"));
  ASSERT_EQ(config.smc.require.size(), 2U);
  EXPECT_FALSE(config.smc.require[0].cidr.has_value());
  EXPECT_THAT(config.smc.require[1].ports, ElementsAre(5432));
}

class LoadFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "fairlead-config-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(LoadFile, ReadsAFileAndNamesItInErrors) {
  const std::string path = folder_ + "/proxy.yaml";
  std::ofstream(path) << kOneListener;
  EXPECT_TRUE(load_file(path).has_value());
  std::ofstream(path) << kOneListener << "fallback: maybe\n";
  EXPECT_THAT(only_error(load_file(path)), testing::StartsWith(path + ":2:11: fallback: "));
}

TEST_F(LoadFile, RefusesWhatIsNoRegularFile) {
  EXPECT_EQ(only_error(load_file(folder_)), folder_ + ": is a directory; allowed: a regular file");
  EXPECT_EQ(only_error(load_file("/dev/zero")),
            "/dev/zero: is not a file; allowed: a regular file");
  EXPECT_EQ(only_error(load_file(folder_ + "/none")),
            folder_ + "/none: cannot be opened: No such file or directory");
  EXPECT_THAT(only_error(load_file("")), HasSubstr("empty or broken"));
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(only_error(load_file(fifo)), fifo + ": is not a file; allowed: a regular file");
}

TEST_F(LoadFile, RefusesAFileAboveTheLimitWithoutReadingItAll) {
  const std::string path = folder_ + "/huge.yaml";
  std::ofstream(path) << "#";
  ASSERT_EQ(::truncate(path.c_str(), 100LL << 30), 0);
  EXPECT_EQ(only_error(load_file(path)), path + ": too large; allowed: at most 1MiB");
}

}  // namespace
}  // namespace fairlead::config
