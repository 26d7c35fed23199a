#include "ctl/app.h"

#include <CLI/CLI.hpp>
#include <ostream>

#include "base/command_words.h"
#include "ctl/commands.h"
#include "ctl/console.h"

namespace fairlead::ctl {
namespace {

constexpr double kTimeoutSecondsMin = 0.1;
constexpr double kTimeoutSecondsMax = 600;

void add_options(CLI::App& app, Console& console) {
  app.add_option("--admin", console.admin,
                 "The proxy's admin endpoint: unix:PATH or @NAME (abstract socket); over TCP\n"
                 "(ADDR:PORT) a proxy serves probes and metrics only.\n"
                 "Default: $FAIRLEAD_ADMIN, else @fairlead-admin");
  app.add_option("-o,--output", console.output, "table, or json: the answer of the proxy")
      ->check(CLI::IsMember({"table", "json"}));
  app.add_option("--timeout", console.timeout_seconds, "Seconds to wait for the proxy")
      ->check(CLI::Range(kTimeoutSecondsMin, kTimeoutSecondsMax));
  app.set_version_flag("--version", FAIRLEAD_VERSION, "Print the version of this program and exit");
  app.require_subcommand(1);
  // Options of all commands may also stand behind the command, where people type them.
  app.fallthrough();
  app.footer(
      "Returns 0 if all is well, 1 with warnings, 2 on failure.\n"
      "Examples:\n"
      "  fairleadctl connections\n"
      "  fairleadctl why 10.1.2.7:8080\n"
      "  kubectl exec POD -c fairlead-proxy -- fairleadctl doctor");
}

}  // namespace

int run(int argument_count, const char* const* arguments, std::ostream& out, std::ostream& err) {
  Console console(out, err);
  if (const std::string why = refused_word(argument_count, arguments); !why.empty()) {
    console.complain(why);
    return static_cast<int>(Exit::kFail);
  }
  CLI::App app("Looks into a Fairlead proxy", "fairleadctl");
  add_options(app, console);
  add_show_commands(app, console);
  add_fallback_commands(app, console);
  add_stats_command(app, console);
  add_doctor_command(app, console);
  add_control_commands(app, console);
  add_hand_over_command(app, console);
  add_completion_command(app, console);
  add_echo_command(app, console);
  add_inject_command(app, console);
  add_cluster_commands(app, console);
  add_docs_command(app, console);
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::ParseError& error) {
    // Also how the parser asks for its help text to be printed, with 0. Its other numbers say more
    // than our three exit codes.
    if (error.get_exit_code() == 0) return app.exit(error, out, err);
    console.complain(error.what());
    err << "Run with --help for more information.\n";
    return static_cast<int>(Exit::kFail);
  }
  return static_cast<int>(console.exit);
}

}  // namespace fairlead::ctl
