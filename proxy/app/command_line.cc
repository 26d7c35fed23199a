#include "app/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "base/command_words.h"

namespace fairlead {
namespace {

constexpr const char* kFooter = R"(
Examples:
  fairlead-proxy --config /etc/fairlead/proxy.yaml
  fairlead-proxy --validate proxy.yaml
  fairlead-proxy --config proxy.yaml --set log.level=debug --set latency.spin=0us

Every key of the file can also be set by a variable: FAIRLEAD_LOG_LEVEL=debug.
Flags win over variables, variables over the file.)";

int report(const std::vector<config::ConfigError>& errors) {
  for (const config::ConfigError& error : errors)
    std::fprintf(stderr, "fairlead-proxy: %s\n", shown_message(config::to_string(error)).c_str());
  return kExitUsage;
}

int refuse(const std::string& why) {
  std::fprintf(stderr, "fairlead-proxy: %s\n", why.c_str());
  return kExitUsage;
}

}  // namespace

Parsed parse_command_line(int argc, char** argv, const char* const* environment) {
  if (const std::string why = refused_word(argc, argv); !why.empty())
    return {std::nullopt, refuse(why)};
  CLI::App app{"Carries TCP between pods over SMC-R; stays TCP where it must, and says why."};
  app.name("fairlead-proxy");
  app.footer(kFooter);
  std::string config_file;
  std::string validate_file;
  std::vector<std::string> sets;
  app.add_option("-c,--config", config_file, "YAML file; see config/proxy.yaml for every key");
  app.add_option("--validate", validate_file, "check this file, print every error, and end");
  app.add_option("--set", sets, "KEY=VALUE: replace one value of the file")->take_all();
  app.set_version_flag("--version", FAIRLEAD_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return {std::nullopt,
            error.get_exit_code() != 0 ? refuse(shown_message(error.what())) : app.exit(error)};
  }
  config::EnvironmentOverrides from_environment = config::overrides_from_environment(environment);
  config::Sources sources;
  sources.overrides = std::move(from_environment.overrides);
  for (const std::string& text : sets) {
    const auto change = config::override_from_flag(text);
    if (!change) return {std::nullopt, report({change.error()})};
    sources.overrides.push_back(*change);
  }
  if (!validate_file.empty()) {
    sources.file = validate_file;
    const config::LoadResult loaded = config::load(sources);
    if (!loaded) return {std::nullopt, report(loaded.error())};
    std::printf("%s: valid\n", shown_message(validate_file).c_str());
    return {std::nullopt, 0};
  }
  if (!config_file.empty()) sources.file = config_file;
  config::LoadResult loaded = config::load(sources);
  if (!loaded) return {std::nullopt, report(loaded.error())};
  return {Startup{std::move(*loaded), std::move(from_environment.warnings)}, 0};
}

}  // namespace fairlead
