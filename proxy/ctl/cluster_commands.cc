// check and status: questions about a whole cluster, by a kubeconfig.
#include <chrono>
#include <optional>
#include <string>

#include "base/command_words.h"
#include "ctl/cluster/cluster_checks.h"
#include "ctl/cluster/cluster_status.h"
#include "ctl/commands.h"

namespace fairlead::ctl {
namespace {

constexpr int kIndent = 2;

struct ClusterOptions {
  std::string kubeconfig, context, release_namespace, name_space;
};

void add_cluster_options(CLI::App& command) {
  command.add_option("--kubeconfig", "File to read; otherwise KUBECONFIG, then ~/.kube/config")
      ->type_name("FILE");
  command.add_option("--context", "Context of the kubeconfig; otherwise its current one")
      ->type_name("NAME");
  command
      .add_option("--fairlead-namespace",
                  "Where Fairlead is installed; check finds it where it may list all namespaces")
      ->type_name("NAME")
      ->default_val("fairlead-system")
      ->check(object_name_trouble);
}

std::string option_text(const CLI::App& command, const char* name) {
  const CLI::Option* option = command.get_option(name);
  return option->as<std::string>();
}

ClusterOptions options_of(const CLI::App& command) {
  return {option_text(command, "--kubeconfig"), option_text(command, "--context"),
          option_text(command, "--fairlead-namespace"), option_text(command, "--namespace")};
}

Duration timeout_of(const Console& console) {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(console.timeout_seconds));
}

struct Connected {
  ClusterAccess access;
  ClusterClient client;
};

// Prints why not, and sets the exit code.
std::optional<Connected> connect(Console& console, const ClusterOptions& options) {
  const auto refuse = [&console](const std::string& why) {
    console.complain(why);
    console.exit = Exit::kFail;
    return std::nullopt;
  };
  auto access = read_kubeconfig(kubeconfig_files(options.kubeconfig), options.context,
                                std::chrono::system_clock::now());
  if (!access) return refuse(access.error());
  auto client = ClusterClient::connect(*access, timeout_of(console));
  if (!client) return refuse(client.error());
  return Connected{std::move(*access), std::move(*client)};
}

void print_json(Console& console, const Json& json) {
  console.print_json(json.dump(kIndent, ' ', false, Json::error_handler_t::replace) + '\n');
}

void run_check(Console& console, const ClusterOptions& options, bool before) {
  const auto connected = connect(console, options);
  if (!connected) return;
  const std::string pod_namespace =
      options.name_space.empty() ? connected->access.name_space : options.name_space;
  ClusterFacts facts =
      ask_cluster(connected->client, options.release_namespace, pod_namespace, before);
  facts.context = connected->access.context;
  facts.server = connected->access.server;
  const std::vector<Check> checks =
      cluster_checks(facts, {before, FAIRLEAD_VERSION, std::chrono::system_clock::now()});
  if (console.wants_json())
    print_json(console, checks_json(checks));
  else
    console.print(checks_text(checks));
  console.exit = static_cast<Exit>(worst_of(checks));
}

void run_status(Console& console, const ClusterOptions& options) {
  const auto connected = connect(console, options);
  if (!connected) return;
  const ApiAnswer maps = ask_node_statuses(connected->client, options.release_namespace);
  if (!maps.good()) {
    console.complain(maps.trouble);
    console.exit = Exit::kFail;
    return;
  }
  const ClusterStatus status =
      read_cluster_status(maps, options.name_space, std::chrono::system_clock::now());
  if (console.wants_json())
    print_json(console, status_json(status));
  else
    console.print(status_text(status));
  if (!status.troubles.empty() || status.nodes.empty()) console.exit = Exit::kWarn;
}

}  // namespace

void add_cluster_commands(CLI::App& app, Console& console) {
  CLI::App* check = app.add_subcommand("check", "Checks a cluster for Fairlead, by a kubeconfig");
  add_cluster_options(*check);
  check->add_option("-n,--namespace", "Where a pod is created for a try (dry run)")
      ->type_name("NAME")
      ->check(object_name_trouble);
  add_flag(*check, "--pre", "Before the installation: the cluster and its nodes alone");
  check->footer(
      "One line per check: ok, warn or fail; name; finding; -> what to do.\n"
      "Changes nothing: the pod for a try is created with dryRun=All.\n"
      "Returns 0 if all is well, 1 with warnings, 2 with failures.\n"
      "Examples:\n"
      "  fairleadctl check --pre\n"
      "  fairleadctl check --kubeconfig admin.conf -n shop\n"
      "  kubectl fairlead check -o json");
  check->callback(
      [&console, check] { run_check(console, options_of(*check), check->count("--pre") != 0); });
  CLI::App* status =
      app.add_subcommand("status", "Shows what carries the connections of a cluster's pods");
  add_cluster_options(*status);
  status->add_option("-n,--namespace", "Pods of this namespace alone")
      ->type_name("NAME")
      ->check(object_name_trouble);
  status->footer(
      "Reads the reports that fairlead-node writes once a minute for each node.\n"
      "Returns 0 if all is well, 1 when a pod or node lacks something, 2 on failure.\n"
      "Examples:\n"
      "  fairleadctl status\n"
      "  fairleadctl status -n shop\n"
      "  kubectl fairlead status -o json");
  status->callback([&console, status] { run_status(console, options_of(*status)); });
}

}  // namespace fairlead::ctl
