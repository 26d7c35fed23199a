// inject: what the webhook would make of the pods in a file, without a cluster.
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>

#include "ctl/commands.h"
#include "injector/manifest.h"

namespace fairlead::ctl {
namespace {

struct InjectOptions {
  std::string file;
  std::string settings_file;
  std::string image;
};

std::optional<std::string> read_input(const std::string& name) {
  if (name == "-") return std::string{std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream file(name, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

std::optional<injector::Settings> settings_for(const InjectOptions& options, Console& console) {
  if (options.settings_file.empty()) {
    injector::Settings settings;
    settings.image = options.image;
    return settings;
  }
  const auto text = read_input(options.settings_file);
  auto settings =
      text ? injector::parse_settings(*text) : tl::unexpected(std::string("cannot be read"));
  if (!settings) {
    console.complain(options.settings_file + ": " + settings.error());
    return std::nullopt;
  }
  if (!options.image.empty()) settings->image = options.image;
  return *settings;
}

void report(const injector::InjectedPod& pod, Console& console) {
  console.note(pod.kind + "/" + pod.name + ": " + std::string(to_string(pod.decision.outcome)));
  for (const std::string& warning : pod.decision.warnings) console.note("warning: " + warning);
  if (!pod.decision.warnings.empty()) console.exit = Exit::kWarn;
}

void inject(const InjectOptions& options, bool all, Console& console) {
  console.exit = Exit::kFail;
  if (options.settings_file.empty() && options.image.empty()) {
    console.complain("no image; allowed: --settings FILE or --image IMAGE");
    return;
  }
  const auto settings = settings_for(options, console);
  if (!settings) return;
  const auto text = read_input(options.file);
  auto manifest =
      text ? injector::parse_manifest(*text) : tl::unexpected(std::string("cannot be read"));
  if (!manifest) {
    console.complain(options.file + ": " + manifest.error());
    return;
  }
  console.exit = Exit::kOk;
  for (injector::OrderedJson& document : manifest->documents)
    for (const injector::InjectedPod& pod : injector::inject_into(document, *settings, all))
      report(pod, console);
  console.print_exactly(injector::print_manifest(*manifest));
}

}  // namespace

void add_inject_command(CLI::App& app, Console& console) {
  CLI::App* command = app.add_subcommand("inject", "Adds the sidecar to the pods in a manifest");
  command->add_option("-f,--file", "YAML or JSON file; - for standard input")->required();
  command->add_option("--settings",
                      "Settings of the installation: settings.json of the ConfigMap "
                      "fairlead-injector");
  command->add_option("--image", "Image of the sidecar");
  add_flag(*command, "--all", "Also pods that do not ask for it, as in a namespace with the label");
  command->footer(
      "Examples:\n"
      "  fairleadctl inject -f deployment.yaml --image registry.example/fairlead:0.1.0\n"
      "  fairleadctl inject -f - --settings settings.json < pods.yaml | kubectl apply -f -");
  command->callback([&console, command] {
    const auto text = [command](const char* name) {
      const CLI::Option* option = (*command)[name];
      return option->count() == 0 ? std::string() : option->as<std::string>();
    };
    inject({text("--file"), text("--settings"), text("--image")}, command->count("--all") != 0,
           console);
  });
}

}  // namespace fairlead::ctl
