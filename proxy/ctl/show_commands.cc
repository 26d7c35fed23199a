// connections, linkgroups, links, devices: one request, one table.
#include <string>

#include "ctl/commands.h"
#include "ctl/tables.h"

namespace fairlead::ctl {
namespace {

void show_connections(Console& console, const CLI::App& command) {
  std::string target = "/connections?limit=" + std::to_string(command["--limit"]->as<int>());
  if (command.count("--state") > 0)
    target += "&state=" + percent_encoded(command["--state"]->as<std::string>());
  const auto answer = console.get(target);
  if (!answer) return;
  const bool details = command.count("--details") > 0;
  console.show(*answer, [details](const Json& json) { return connections_text(json, details); });
  const Json& reply = answer->json;
  const std::size_t shown = list(reply, "connections").size();
  if (command.count("--state") == 0 && shown < number(reply, "open") &&
      shown == number(reply, "limit"))
    console.complain("showing " + std::to_string(shown) + " of " +
                     std::to_string(number(reply, "open")) +
                     " connections; see --limit and --state");
  console.note_silent_workers(reply);
}

void show(Console& console, const char* target, std::string (*render)(const Json&)) {
  const auto answer = console.get(target);
  if (!answer) return;
  console.show(*answer, render);
  console.note_silent_workers(answer->json);
}

}  // namespace

void add_show_commands(CLI::App& app, Console& console) {
  CLI::App* connections = app.add_subcommand("connections", "Connections and what carries them");
  connections->alias("ss");
  add_flag(*connections, "-d,--details", "Also reason codes, tokens and buffer sizes");
  connections->add_option("--state", "Only those in this state, as the column shows it")
      ->type_name("STATE");
  connections->add_option("--limit", "Rows at most")
      ->type_name("COUNT")
      ->check(CLI::Range(1, 10000))
      ->default_val(1000);
  connections->footer(
      "Examples:\n"
      "  fairleadctl connections\n"
      "  fairleadctl connections --details --state active\n"
      "  fairleadctl connections -o json | jq '.connections[] | select(.transport == \"tcp\")'");
  connections->callback([&console, connections] { show_connections(console, *connections); });

  CLI::App* groups = app.add_subcommand("linkgroups", "SMC-R link groups");
  groups->alias("linkgroup");
  groups->footer(
      "Type tells the redundancy: single, symmetric, asymmetric_local (this side has one RNIC),\n"
      "asymmetric_peer, none.\n"
      "Examples:\n"
      "  fairleadctl linkgroups");
  groups->callback([&console] { show(console, "/linkgroups", link_groups_text); });

  CLI::App* links = app.add_subcommand("links", "Links of the link groups");
  links->alias("link");
  links->footer("Examples:\n  fairleadctl links");
  links->callback([&console] { show(console, "/links", links_text); });

  CLI::App* devices = app.add_subcommand("devices", "Ports of the devices that carry SMC-R");
  devices->footer("Examples:\n  fairleadctl devices");
  devices->callback([&console] { show(console, "/devices", devices_text); });
}

}  // namespace fairlead::ctl
