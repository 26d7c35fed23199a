// drain, port, log-level, version.
#include <string>

#include "ctl/commands.h"
#include "ctl/http_client.h"

namespace fairlead::ctl {
namespace {

void drain(Console& console) {
  const auto answer = console.post("/drain");
  if (!answer) return;
  console.show(*answer, [](const Json&) {
    return std::string("draining: new connections are TCP, open ones go on\n");
  });
}

void take_port(Console& console, const std::string& device, unsigned port,
               const std::string& state) {
  const auto answer = console.post("/ports?device=" + percent_encoded(device) +
                                   "&port=" + std::to_string(port) + "&state=" + state);
  if (!answer) return;
  console.show(*answer, [](const Json& reply) {
    return "told to go " + text(reply, "state") + "; see fairleadctl devices\n";
  });
}

void log_level(Console& console, const std::string& level) {
  const auto answer =
      level.empty() ? console.get("/logging") : console.post("/logging?level=" + level);
  if (!answer) return;
  console.show(*answer, [](const Json& reply) { return text(reply, "level") + '\n'; });
}

// A proxy that is not there is no error: the client's version is known all the same.
void version(Console& console) {
  std::string reason;
  const auto reply = console.try_request("GET", "/", reason);
  const Json body = reply ? parse_json(reply->body) : Json();
  const Json& build = member(body, "build");
  if (console.wants_json()) {
    const Json versions = {{"client", {{"version", FAIRLEAD_VERSION}}}, {"proxy", build}};
    constexpr int kIndent = 2;
    console.print_json(versions.dump(kIndent, ' ', false, Json::error_handler_t::replace) + '\n');
    return;
  }
  console.print("fairleadctl     " FAIRLEAD_VERSION "\n");
  console.print("fairlead-proxy  " +
                (build.is_object() ? text(build, "version") + " (" + text(build, "revision") + ")"
                                   : "not reached") +
                '\n');
}

}  // namespace

void add_control_commands(CLI::App& app, Console& console) {
  CLI::App* drain_command = app.add_subcommand(
      "drain", "Stops using SMC-R for new connections; open connections continue");
  drain_command->footer("Examples:\n  fairleadctl drain");
  drain_command->callback([&console] { drain(console); });

  CLI::App* port_command =
      app.add_subcommand("port", "Takes a port of a shared-memory device out of use, or back");
  port_command->add_option("DEVICE", "name of the device")->required();
  port_command->add_option("PORT", "number of the port")->required()->check(CLI::Range(1, 255));
  port_command->add_option("STATE", "up or down")->required()->check(CLI::IsMember({"up", "down"}));
  port_command->footer("Examples:\n  fairleadctl port shm0 2 down\n  fairleadctl port shm0 2 up");
  port_command->callback([&console, port_command] {
    take_port(console, (*port_command)["DEVICE"]->as<std::string>(),
              (*port_command)["PORT"]->as<unsigned>(), (*port_command)["STATE"]->as<std::string>());
  });

  CLI::App* level_command = app.add_subcommand("log-level", "Shows or sets the log level");
  level_command->add_option("LEVEL", "trace, debug, info, warn, error or off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
  level_command->footer("Examples:\n  fairleadctl log-level\n  fairleadctl log-level debug");
  level_command->callback([&console, level_command] {
    log_level(console, level_command->count("LEVEL") > 0
                           ? (*level_command)["LEVEL"]->as<std::string>()
                           : std::string());
  });

  CLI::App* version_command =
      app.add_subcommand("version", "Versions of this program and the proxy");
  version_command->footer("Examples:\n  fairleadctl version -o json");
  version_command->callback([&console] { version(console); });
}

}  // namespace fairlead::ctl
