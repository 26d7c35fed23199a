// Goal: a process in place of a proxy cannot control the terminal or crash fairleadctl. Method: a
// server that gives every request the same answer, and the whole fairleadctl.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/linux/handle.h"
#include "event/http/http_endpoint.h"
#include "unit/ctl/run_with.h"

namespace fairlead::ctl {
namespace {

class HostileServer {
 public:
  explicit HostileServer(const std::string& body)
      : name_("@fairlead-ctl-hostile-" + std::to_string(::getpid())),
        reply_("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
               body),
        listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto endpoint = event::HttpEndpoint::parse(name_);
    EXPECT_EQ(::bind(listener_.get(), endpoint->data(), endpoint->size()), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~HostileServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  Outcome ask(std::vector<const char*> arguments) const {
    arguments.insert(arguments.end(), {"--timeout", "60", "--admin", name_.c_str()});
    return run_with(std::move(arguments));
  }

 private:
  void serve() const {
    for (;;) {
      const FileDescriptor client(::accept(listener_.get(), nullptr, nullptr));
      if (client.get() < 0) return;
      std::array<char, 4096> request;
      if (::recv(client.get(), request.data(), request.size(), 0) <= 0) continue;
      for (std::size_t at = 0; at < reply_.size();) {
        const ssize_t sent = ::send(client.get(), &reply_[at], reply_.size() - at, MSG_NOSIGNAL);
        if (sent <= 0) break;
        at += static_cast<std::size_t>(sent);
      }
    }
  }

  std::string name_;
  std::string reply_;
  FileDescriptor listener_;
  std::thread thread_;
};

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); });
}

TEST(HostileProxy, NoCommandPrintsItsControlCharacters) {
  const std::string evil =
      "\x1b[31m\x1b]0;t\x07\xc2\x9b"
      "31m\x7f\r\n\xe2\x80\xae";
  const nlohmann::json row = {{"id", evil},     {"state", evil},     {"transport", evil},
                              {"peer", evil},   {"name", evil},      {"group", evil},
                              {"reason", evil}, {"sentence", evil},  {"hint", evil},
                              {"count", 3},     {"workers", {evil}}, {"steps", {evil}},
                              {"status", evil}, {"finding", evil},   {"fix", evil}};
  const nlohmann::json rows = nlohmann::json::array({row});
  const HostileServer server(nlohmann::json{{"connections", rows},
                                            {"link_groups", rows},
                                            {"links", rows},
                                            {"devices", rows},
                                            {"fallbacks", rows},
                                            {"decisions", rows},
                                            {"checks", rows},
                                            {"silent_workers", {evil, 1}},
                                            {"level", evil},
                                            {"state", evil},
                                            {"build", {{"version", evil}, {"backend", evil}}}}
                                 .dump());
  const std::vector<std::vector<const char*>> commands = {{"connections", "--details"},
                                                          {"linkgroups"},
                                                          {"links"},
                                                          {"devices"},
                                                          {"fallbacks"},
                                                          {"why", "--all"},
                                                          {"why", "--expect", "smcr"},
                                                          {"stats"},
                                                          {"doctor"},
                                                          {"log-level"},
                                                          {"port", "shm0", "1", "up"},
                                                          {"version"}};
  for (std::vector<const char*> command : commands) {
    const Outcome table = server.ask(command);
    EXPECT_TRUE(is_printable(table.out + table.err)) << command[0];
    command.insert(command.end(), {"-o", "json"});
    const Outcome json = server.ask(command);
    EXPECT_TRUE(is_printable(json.out + json.err)) << command[0];
    EXPECT_TRUE(nlohmann::json::accept(json.out)) << command[0];
  }
  EXPECT_NE(server.ask({"why", "--expect", "smcr"}).err.find("transport \\x1b[31m"),
            std::string::npos);
}

TEST(HostileProxy, DeepJsonIsAFailureThatSaysSo) {
  constexpr std::size_t kLevels = 2'000'000;
  const HostileServer server(R"({"devices":[{"workers":[)" + std::string(kLevels, '[') +
                             std::string(kLevels, ']') + "]}]}");
  for (const char* output : {"table", "json"}) {
    const Outcome outcome = server.ask({"devices", "-o", output});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find("nested deeper than 64 levels"), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(server.ask({"version"}).exit_code, 0);
}

}  // namespace
}  // namespace fairlead::ctl
