// fairlead-node: the agent of a node, which installs and supports fairlead-cni. Exit codes: 0; 1 if
// an operation failed; 64 for a wrong command line.
#include <CLI/CLI.hpp>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <map>
#include <string>

#include "base/command_words.h"
#include "base/linux/descriptors.h"
#include "base/linux/stop_signals.h"
#include "base/log.h"
#include "cni/node/agent/agent.h"
#include "cni/node/agent/install.h"
#include "cni/node/agent/inventory.h"
#include "cni/node/agent/leave.h"
#include "cni/node/agent/withdraw.h"
#include "cni/node/broker/broker_command.h"
#include "cni/state/garbage.h"

namespace fairlead::cni::node {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 64;
// Enough for a node with many pods: some for each pod and for each device of the broker.
constexpr std::size_t kDescriptors = 8192;

struct Options {
  Places places;
  std::string settings = "{}";
  std::string listen = "[::]:4591";
  ClusterSettings cluster;
  RnicAccessOptions rnics;
  double check_seconds = std::chrono::duration<double>(PodCheck::kInterval).count();
  bool keeper = true;
  bool leave = false;
  WithdrawSettings withdrawal;
  BrokerCommand broker;
};

int report(const PluginError& error) {
  std::fprintf(stderr, "fairlead-node: %s\n", shown_message(error.message).c_str());
  return kExitFailure;
}

void add_places(CLI::App& command, Options& options) {
  command
      .add_option("--bin-dir", options.places.bin_dirs, "folder of CNI plugins; may be repeated")
      ->default_val(std::vector<std::string>{"/opt/cni/bin"})
      ->check(own_folder_trouble);
  command.add_option("--conf-dir", options.places.conf_dir, "folder of network configurations")
      ->default_val("/etc/cni/net.d")
      ->check(own_folder_trouble);
  command.add_option("--run-dir", options.places.run_dir, "runDir of the plugin")
      ->default_val("/run/fairlead-cni")
      ->check(own_folder_trouble);
}

void add_plugin(CLI::App& command, Options& options) {
  add_places(command, options);
  command.add_option("--plugin", options.places.plugin, "the fairlead-cni to install")
      ->default_val("/usr/local/bin/fairlead-cni");
  command
      .add_option("--seccomp-dir", options.places.seccomp_dir,
                  "folder below the kubelet's folder of seccomp profiles, for the sidecar's; "
                  "default: none is installed")
      ->check(own_folder_trouble);
  command
      .add_option("--seccomp-profile", options.places.seccomp_profile,
                  "the profile to install there")
      ->default_val("/etc/fairlead/seccomp.json");
  command.add_option("--settings", options.settings,
                     "keys of the plugin's entry as JSON, see docs/cni-reference.md");
}

void add_cgroups(CLI::App& command, ClusterSettings& cluster) {
  command.add_option("--cgroup-root", cluster.places.cgroup_root, "the node's cgroups")
      ->capture_default_str()
      ->check(own_folder_trouble);
}

void add_cluster(CLI::App& command, ClusterSettings& cluster) {
  command
      .add_option("--node-name", cluster.node,
                  "of this node in its cluster, unless the agent's token names it")
      ->envname("NODE_NAME")
      ->check(optional_name_trouble);
  command.add_flag("--repair", cluster.repair,
                   "redirect pods too that were started before the plugin was installed");
  const std::map<std::string, RepairSource> sources = {{"runtime", RepairSource::kRuntime},
                                                       {"api", RepairSource::kApi}};
  command
      .add_option(
          "--repair-from", cluster.repair_from,
          "where --repair takes the pods of the node from: runtime (with --rnic-access nri) "
          "or api (needs the right to list pods); default runtime")
      ->transform(CLI::CheckedTransformer(sources).description("{runtime,api}"));
  command.add_flag("--label-node", cluster.label,
                   "fairlead.io/ready and fairlead.io/pnet.ID on the node");
  command.add_flag("--report-status", cluster.status,
                   "write a ConfigMap about this node, for fairleadctl check and status");
  command.add_flag(
      "--fallback-events", cluster.events,
      "with --report-status: an Event for the first fallback of each reason of a pod, and for "
      "each hand-over");
  command.add_option("--report-namespace", cluster.report_namespace, "of that ConfigMap")
      ->envname("NAMESPACE")
      ->check(optional_name_trouble);
  command
      .add_option_function<double>(
          "--report-interval",
          [&cluster](double s) { cluster.status_interval = decltype(cluster.status_interval)(s); },
          "seconds between two reports; default 60")
      ->check(CLI::Range(0.1, 3600.0));
  command
      .add_option_function<double>(
          "--api-interval",
          [&cluster](double s) { cluster.interval = decltype(cluster.interval)(s); },
          "seconds between two looks at the API server; default 15")
      ->check(CLI::Range(0.1, 3600.0));
  command
      .add_option("--netns-dir", cluster.places.netns_dir,
                  "where the runtime has the names of network namespaces")
      ->capture_default_str();
  add_cgroups(command, cluster);
}

// "auto", "unlimited" or a number of bytes.
std::string take_memlock(const std::string& text, nri::MemlockRule& rule) {
  rule.bytes.reset();
  if (text == "auto") return "";
  std::uint64_t bytes = RLIM_INFINITY;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  const bool number = error == std::errc() && end == text.data() + text.size() && bytes != 0;
  if (text != "unlimited" && !number) return "allowed: auto, unlimited, or a number of bytes";
  rule.bytes = bytes;
  return "";
}

void add_rnic_access(CLI::App& command, RnicAccessOptions& rnics) {
  const std::map<std::string, RnicAccessMode> modes = {{"nri", RnicAccessMode::kNri},
                                                       {"resource", RnicAccessMode::kResource},
                                                       {"claim", RnicAccessMode::kClaim},
                                                       {"none", RnicAccessMode::kNone}};
  command
      .add_option("--rnic-access", rnics.mode,
                  "who gives sidecars their RNICs: nri (this program, by the container runtime), "
                  "resource (a device plugin), claim (a DRA driver) or none; default nri")
      ->transform(CLI::CheckedTransformer(modes).description("{nri,resource,claim,none}"));
  command.add_option("--nri-socket", rnics.socket, "of the container runtime")
      ->capture_default_str();
  command
      .add_option("--rnic-namespace", rnics.policy.namespaces,
                  "namespace whose pods may have RNICs; may be repeated; default: all")
      ->check(object_name_trouble);
  command
      .add_option("--rnic-env", rnics.policy.env_names,
                  "environment variable that a sidecar with an RNIC may have besides those of the "
                  "injection and of Kubernetes; may be repeated")
      ->check([](const std::string& name) {
        return nri::may_allow_variable(name)
                   ? std::string()
                   : "--rnic-env: \"" + name +
                         "\" is not allowed; allowed: letters, digits and '_', not beginning with "
                         "a "
                         "digit, LD_, GLIBC_, MALLOC_, IBV_, RDMAV_ or MLX";
      });
  command
      .add_option_function<std::string>(
          "--rnic-memlock",
          [&rnics](const std::string& text) { (void)take_memlock(text, rnics.policy.memlock); },
          "bytes that a sidecar with an RNIC may lock: auto (its memory limit), unlimited or a "
          "number; default auto")
      ->check([](const std::string& text) {
        nri::MemlockRule rule;
        return take_memlock(text, rule);
      });
  command.add_option("--sysfs", rnics.sysfs, "where the node's RNICs are found")
      ->capture_default_str();
}

void add_withdrawal(CLI::App& command, WithdrawSettings& settings) {
  command.add_option("daemonsets", settings.daemonsets, "of fairlead-node")
      ->required()
      ->check(object_name_trouble);
  command.add_option("--namespace", settings.name_space, "theirs")
      ->envname("NAMESPACE")
      ->required()
      ->check(object_name_trouble);
  command
      .add_option_function<double>(
          "--timeout", [&settings](double s) { settings.timeout = decltype(settings.timeout)(s); },
          "seconds until nodes that do not answer are given up; default 240")
      ->check(CLI::Range(0.1, 86400.0));
  command.add_flag("--best-effort", settings.best_effort,
                   "exit code 0 although some have been given up");
}

void add_broker(CLI::App& command, BrokerCommand& broker) {
  command
      .add_option("--netns-dir", broker.netns_dir,
                  "folder with the network namespaces of other proxies, as /run/netns or "
                  "/run/docker/netns; default: only its own")
      ->check(own_folder_trouble);
  command.add_option("--run-dir", broker.run_dir, "folder for what the next broker has to know")
      ->default_val("/run/fairlead-broker")
      ->check(own_folder_trouble);
  command.add_option("--uid", broker.sidecar_uid,
                     "user of the proxies, others are ignored; default: any");
  command
      .add_option("--socket-name", broker.socket_name,
                  "devices.shm.broker of the proxies, \"@NAME\"")
      ->capture_default_str()
      ->check([](const std::string& name) {
        return name.size() > 1 && name.size() <= broker::kSocketNameCharsMax && name[0] == '@'
                   ? std::string()
                   : shown_word(name) +
                         " is not allowed; allowed: \"@\" and a name of at most 103 characters";
      });
  command.footer(
      "Examples:\n"
      "  fairlead-node broker\n"
      "  fairlead-node broker --netns-dir /run/docker/netns --uid 2201");
}

// Entry and places must name the same folder.
Outcome<OrderedJson> entry_of(const Options& options) {
  auto entry = make_entry(options.settings);
  if (entry && !entry->contains("runDir")) (*entry)["runDir"] = options.places.run_dir;
  return entry;
}

int run_install(const Options& options) {
  const auto entry = entry_of(options);
  if (!entry) return report(entry.error());
  const auto installed = install(options.places, *entry);
  if (!installed) return report(installed.error());
  std::printf("%s: %s\n", installed->change == ListChange::kWaiting ? "waiting" : "installed",
              installed->file.c_str());
  return 0;
}

int run_uninstall(const Options& options) {
  const auto left = leave_node(options.places, options.cluster.places.cgroup_root);
  return left ? 0 : report(left.error());
}

int run_withdrawal(const WithdrawSettings& settings) {
  const auto server = event::ApiServer::from_pod();
  if (!server) {
    std::fprintf(stderr, "fairlead-node: %s\n", server.error().c_str());
    return kExitFailure;
  }
  return withdraw(*server, settings) || settings.best_effort ? 0 : kExitFailure;
}

void prepare_to_stay() {
  raise_descriptor_limit();  // the broker has some for each pod
  make_room_for_descriptors(kDescriptors);
  block_stop_signals();
}

int run_agent(const Options& options) {
  prepare_to_stay();
  const LogQueue log_queue;
  if (options.leave) {
    const auto left = leave_and_stay({options.places, options.listen, options.cluster});
    return left ? 0 : report(left.error());
  }
  auto entry = entry_of(options);
  if (!entry) return report(entry.error());
  auto agent = Agent::start({options.places, std::move(*entry), options.listen, options.cluster,
                             options.rnics, options.keeper,
                             std::chrono::duration<double>(options.check_seconds)});
  if (!agent) return report(agent.error());
  (*agent)->run();
  return 0;
}

int run_broker_alone(const Options& options) {
  prepare_to_stay();
  const LogQueue log_queue;
  const auto ended = run_broker(options.broker);
  return ended ? 0 : report(ended.error());
}

int run_collection(const Options& options) {
  const GarbageCount count = collect_dead(options.places.run_dir);
  std::printf("%zu kept, %zu collected\n", count.kept, count.collected);
  return 0;
}

int refuse(const std::string& why) {
  std::fprintf(stderr, "fairlead-node: %s\n", why.c_str());
  return kExitUsage;
}

int dispatch(int argc, char** argv) {
  if (const std::string why = refused_word(argc, argv); !why.empty()) return refuse(why);
  CLI::App app{"Keeps fairlead-cni installed on a node, and tells what the node has for SMC-R."};
  app.name("fairlead-node");
  app.set_version_flag("--version", FAIRLEAD_VERSION);
  app.require_subcommand(1);
  Options options;
  options.cluster.version = FAIRLEAD_VERSION;
  CLI::App* run = app.add_subcommand("run", "install, then stay until SIGTERM");
  CLI::App* install = app.add_subcommand("install", "put the plugin on this node, or upgrade it");
  CLI::App* uninstall = app.add_subcommand("uninstall", "take everything of it off this node");
  CLI::App* withdrawal =
      app.add_subcommand("withdraw", "have the DaemonSets take everything of it off their nodes");
  CLI::App* inventory = app.add_subcommand("inventory", "RDMA ports, GIDs and limits, as JSON");
  CLI::App* collect = app.add_subcommand("gc", "forget pods that went without a DEL");
  CLI::App* broker =
      app.add_subcommand("broker", "connect the proxies of network namespaces, without a cluster");
  add_plugin(*run, options);
  run->add_option("--listen", options.listen, "address of /metrics and probes; \"\" for none");
  run->add_option("--check-interval", options.check_seconds,
                  "seconds between two looks at what the pods were given")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  run->add_flag("!--no-hand-over", options.keeper,
                "do not keep the connections of sidecars while these are replaced");
  add_cluster(*run, options.cluster);
  add_rnic_access(*run, options.rnics);
  add_plugin(*install, options);
  run->add_flag("--leave", options.leave,
                "take everything of it off this node instead, and stay until SIGTERM")
      ->envname(kLeaveVariable);
  add_places(*uninstall, options);
  add_cgroups(*uninstall, options.cluster);
  add_withdrawal(*withdrawal, options.withdrawal);
  add_places(*collect, options);
  add_broker(*broker, options.broker);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return refuse(shown_message(error.what()));
    return app.exit(error);
  }
  if (*run) return run_agent(options);
  if (*install) return run_install(options);
  if (*uninstall) return run_uninstall(options);
  if (*broker) return run_broker_alone(options);
  if (*withdrawal) return run_withdrawal(options.withdrawal);
  if (*inventory) {
    std::printf("%s\n", to_json(take_inventory()).dump(2).c_str());
    return 0;
  }
  return *collect ? run_collection(options) : kExitUsage;
}

}  // namespace
}  // namespace fairlead::cni::node

int main(int argc, char** argv) { return fairlead::cni::node::dispatch(argc, argv); }
