// Goal: a process in place of a proxy cannot control the terminal or crash fairleadctl. Method: a
// server that gives every request the same answer, and the whole fairleadctl.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "unit/ctl/run_with.h"
#include "unit/http/answering_server.h"

namespace fairlead::ctl {
namespace {

// A server that gives every request the same body.
class HostileServer {
 public:
  explicit HostileServer(const std::string& body)
      : server_("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
                body),
        name_(to_string(server_.endpoint())) {}

  Outcome ask(std::vector<const char*> arguments) const {
    arguments.insert(arguments.end(), {"--timeout", "60", "--admin", name_.c_str()});
    return run_with(std::move(arguments));
  }

 private:
  event::AnsweringServer server_;
  std::string name_;
};

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); });
}

TEST(HostileProxy, NoCommandPrintsItsControlCharacters) {
  const std::string evil =
      "\x1b[31m\x1b]0;t\x07\xc2\x9b"
      "31m\x7f\r\n\xe2\x80\xae";
  nlohmann::json row = {{"count", 3}, {"workers", {evil}}, {"steps", {evil}}};
  for (const char* key : {"id", "state", "transport", "peer", "name", "group", "reason", "sentence",
                          "hint", "status", "finding", "fix"})
    row[key] = evil;
  nlohmann::json answer = {{"silent_workers", {evil, 1}},
                           {"level", evil},
                           {"state", evil},
                           {"build", {{"version", evil}, {"backend", evil}}}};
  for (const char* rows :
       {"connections", "link_groups", "links", "devices", "fallbacks", "decisions", "checks"})
    answer[rows] = nlohmann::json::array({row});
  const HostileServer server(answer.dump());
  std::vector<std::vector<const char*>> commands = {{"connections", "--details"},
                                                    {"why", "--all"},
                                                    {"why", "--expect", "smcr"},
                                                    {"port", "shm0", "1", "up"}};
  for (const char* one : {"linkgroups", "links", "devices", "destinations", "fallbacks", "stats",
                          "doctor", "log-level", "version"})
    commands.push_back({one});
  for (std::vector<const char*>& command : commands) {
    const Outcome table = server.ask(command);
    EXPECT_TRUE(is_printable(table.out + table.err)) << command[0];
    command.insert(command.end(), {"-o", "json"});
    const Outcome json = server.ask(command);
    EXPECT_TRUE(is_printable(json.out + json.err)) << command[0];
    EXPECT_TRUE(nlohmann::json::accept(json.out)) << command[0];
  }
  EXPECT_THAT(server.ask({"why", "--expect", "smcr"}).err,
              testing::HasSubstr("transport \\x1b[31m"));
}

TEST(HostileProxy, DeepJsonIsAFailureThatSaysSo) {
  constexpr std::size_t kLevels = 2'000'000;
  const HostileServer server(R"({"devices":[{"workers":[)" + std::string(kLevels, '[') +
                             std::string(kLevels, ']') + "]}]}");
  for (const char* output : {"table", "json"}) {
    const Outcome outcome = server.ask({"devices", "-o", output});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, testing::HasSubstr("nested deeper than 64 levels"));
  }
  EXPECT_EQ(server.ask({"version"}).exit_code, 0);
}

}  // namespace
}  // namespace fairlead::ctl
