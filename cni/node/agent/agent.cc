#include "cni/node/agent/agent.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/kubernetes_names.h"
#include "base/linux/stop_signals.h"
#include "base/linux/wait.h"
#include "base/log.h"
#include "cni/node/agent/inventory.h"
#include "cni/plugin/plugin_log.h"
#include "cni/state/garbage.h"

namespace fairlead::cni::node {
namespace {

constexpr const char* kLogger = "node";
constexpr std::uint32_t kWatched = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE;
// The agent's own rename is an event too. The pause prevents a busy loop with a program that
// reverts the entry at once.
constexpr int kQuietMilliseconds = 200;

tl::unexpected<PluginError> failed(const std::string& what, int error_number) {
  return fail(Code::kState, to_string(fairlead::system_error(what.c_str(), error_number)));
}

Outcome<FileDescriptor> watch(const Places& places) {
  FileDescriptor watcher(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!watcher) return failed("inotify", errno);
  if (::inotify_add_watch(watcher.get(), places.conf_dir.c_str(), kWatched) < 0)
    return failed(places.conf_dir, errno);
  return watcher;
}

void drain(int fd) {
  std::array<char, 4096> buffer;
  while (::read(fd, buffer.data(), buffer.size()) > 0) continue;
}

}  // namespace

Agent::Agent(AgentSettings settings, FileDescriptor watcher, PluginLog log)
    : settings_(std::move(settings)),
      watcher_(std::move(watcher)),
      log_(std::move(log)),
      check_(settings_.places.run_dir, settings_.cluster.places.cgroup_root),
      encryption_(settings_.places.run_dir) {}

Outcome<std::unique_ptr<Agent>> Agent::start(AgentSettings settings) {
  const Places& places = settings.places;
  // Created before the first check, so that no change is missed.
  FileDescriptor watcher = SMC_TRY(watch(places));
  const auto installed = SMC_TRY(install(places, settings.entry));
  PluginLog log = SMC_TRY(PluginLog::open(places.run_dir + "/" + kLogSocketName));
  std::unique_ptr<Agent> agent(new Agent(std::move(settings), std::move(watcher), std::move(log)));
  agent->note(installed);
  SMC_TRY(agent->start_services());
  return agent;
}

Outcome<void> Agent::start_services() {
  const std::string& run_dir = settings_.places.run_dir;
  const std::uint32_t uid = settings_.entry.value("proxyUid", kubernetes::kSidecarUid);
  const auto config = read_node_config(Json(settings_.entry));
  if (config) wanted_ports_ = node::wanted_ports(config->config);
  broker_.start(run_dir, uid, metrics_);
  pods_.start(run_dir, uid, settings_.keeper, metrics_);
  start_rnic_access(config);
  SMC_TRY(serve());
  start_chores(config);
  return {};
}

void Agent::note(const Outcome<Installed>& installed) {
  if (!installed) {
    metrics_.set_install_ready(false);
    metrics_.count_install(false);
    LogEvent(LogLevel::kError, kLogger, "install_failed").field("what", installed.error().message);
    return;
  }
  metrics_.set_install_ready(installed->change != ListChange::kWaiting);
  if (installed->change == ListChange::kNone) return;
  const bool written = installed->change == ListChange::kWritten;
  if (written) metrics_.count_install(true);
  LogEvent(LogLevel::kInfo, kLogger, written ? "installed" : "install_waits")
      .field("file", installed->file);
}

void Agent::collect() {
  const GarbageCount count = collect_dead(settings_.places.run_dir);
  metrics_.set_garbage(count.kept, count.collected);
  metrics_.set_inventory(take_inventory(settings_.rnics.sysfs), wanted_ports_);
  if (count.collected != 0)
    LogEvent(LogLevel::kInfo, kLogger, "collected").field("attachments", count.collected);
}

void Agent::start_rnic_access(const Outcome<NodeConfigRead>& config) {
  const RnicAccessOptions& wanted = settings_.rnics;
  if (wanted.mode != RnicAccessMode::kNri) return;
  if (!config) {
    LogEvent(LogLevel::kError, kLogger, "no_rnic_access").field("what", config.error().message);
    return;
  }
  nri::RnicAccessSettings access{config->config, wanted.policy, wanted.sysfs, "/proc"};
  access.config.run_dir = settings_.places.run_dir;
  access.policy.sidecar_uid = access.config.proxy_uid;
  rnic_access_.start({std::move(access), wanted.socket, settings_.cluster.places.cgroup_root,
                      repairs_from(RepairSource::kRuntime)},
                     metrics_);
}

bool Agent::repairs_from(RepairSource source) const {
  return settings_.cluster.repair && settings_.cluster.repair_from == source;
}

// Without these answers, pods whose annotations the runtime does not pass are repaired later.
void Agent::start_answers(const event::ApiServer& server) {
  auto started =
      PodAnswers::start(settings_.places.run_dir, settings_.cluster.places.cgroup_root, server);
  if (started)
    answers_ = std::move(*started);
  else
    LogEvent(LogLevel::kWarn, kLogger, "no_annotation_server")
        .field("what", started.error().message);
}

// Without these chores, pods are set up only when they start.
void Agent::start_chores(const Outcome<NodeConfigRead>& config) {
  const ClusterSettings& wanted = settings_.cluster;
  if (!wanted.repair && !wanted.label && !wanted.status) return;
  auto server = event::ApiServer::from_pod();
  if (!server || !config || wanted.node.empty()) {
    LogEvent(LogLevel::kWarn, kLogger, "no_cluster")
        .field("what", wanted.node.empty() ? "--node-name is not given"
                       : server            ? config.error().message
                                           : server.error());
    return;
  }
  if (repairs_from(RepairSource::kApi)) start_answers(*server);
  if (repairs_from(RepairSource::kRuntime) && settings_.rnics.mode != RnicAccessMode::kNri)
    LogEvent(LogLevel::kWarn, kLogger, "no_repair")
        .field("what", "--repair-from runtime needs --rnic-access nri")
        .field("hint", "--repair-from api takes the pods from the API server");
  chores_.emplace(wanted, std::move(*server), config->config, metrics_, check_,
                  [this] { return rnic_access_.pods(); });
  if (const auto started = chores_->start(); !started)
    LogEvent(LogLevel::kError, kLogger, "no_cluster").field("what", to_string(started.error()));
}

Outcome<void> Agent::serve() {
  if (settings_.listen.empty()) return {};
  rnic_counters_.emplace(settings_.rnics.sysfs, kRnicCountersInterval);
  if (const auto started = rnic_counters_->start(); !started)
    return fail(Code::kState, to_string(started.error()));
  metrics_.show_rnic_counters(&*rnic_counters_);
  probes_ = SMC_TRY(Probes::start(
      settings_.listen,
      {[this] { return metrics_.install_ready() ? "" : "the plugin is not installed"; },
       [this] { return metrics_.text(); }, &metrics_.http_refusals()}));
  return {};
}

void Agent::run() {
  const sigset_t set = stop_signals();
  const FileDescriptor signals(::signalfd(-1, &set, SFD_CLOEXEC));
  auto next_collection = std::chrono::steady_clock::now();
  auto next_check = next_collection;
  LogEvent(LogLevel::kInfo, kLogger, "ready");
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_collection) {
      collect();
      next_collection = now + kCollectInterval;
    }
    if (now >= next_check) {
      metrics_.set_pods(check_.look());
      encryption_.look();
      next_check = now + std::chrono::duration_cast<Duration>(settings_.check_interval);
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(std::min(next_collection, next_check) - now)
            .count();
    std::array<pollfd, 3> waiting = {pollfd{signals.get(), POLLIN, 0},
                                     pollfd{log_.descriptor(), POLLIN, 0},
                                     pollfd{watcher_.get(), POLLIN, 0}};
    if (wait_for_events(waiting, left > 0 ? static_cast<int>(left) : 0) < 0) continue;
    if (waiting[0].revents != 0) break;
    if (waiting[1].revents != 0) log_.relay(metrics_);
    if (waiting[2].revents == 0) continue;
    // Programs that write a configuration often write several files.
    (void)::poll(waiting.data(), 1, kQuietMilliseconds);
    drain(watcher_.get());
    note(install_entry(settings_.places, settings_.entry));
  }
  LogEvent(LogLevel::kInfo, kLogger, "stopped");
}

}  // namespace fairlead::cni::node
