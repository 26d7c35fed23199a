// The commands, a group of them per file. Each function adds its own to the parser; the parser runs
// the one that was asked for.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "ctl/console.h"

namespace fairlead::ctl {

// A flag that is asked for by count(). CLI11 2.1 cannot tell a string literal from a variable here
// when compiled as C++20.
inline void add_flag(CLI::App& command, const std::string& names, const std::string& description) {
  command.add_flag(names, description);
}

void add_show_commands(CLI::App& app, Console& console);  // connections linkgroups links devices
void add_fallback_commands(CLI::App& app, Console& console);  // fallbacks why
void add_stats_command(CLI::App& app, Console& console);
void add_doctor_command(CLI::App& app, Console& console);
void add_control_commands(CLI::App& app, Console& console);  // drain log-level version
void add_hand_over_command(CLI::App& app, Console& console);
void add_completion_command(CLI::App& app, Console& console);
void add_echo_command(CLI::App& app, Console& console);
void add_inject_command(CLI::App& app, Console& console);
void add_cluster_commands(CLI::App& app, Console& console);  // check status
void add_docs_command(CLI::App& app, Console& console);      // hidden

}  // namespace fairlead::ctl
