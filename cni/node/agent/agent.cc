#include "cni/node/agent/agent.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <thread>
#include <utility>

#include "base/kubernetes_names.h"
#include "base/linux/handle.h"
#include "base/linux/unix_socket.h"
#include "base/linux/wait.h"
#include "base/log.h"
#include "cni/node/agent/agent_metrics.h"
#include "cni/node/agent/agent_pods.h"
#include "cni/node/agent/inventory.h"
#include "cni/node/agent/probes.h"
#include "cni/node/agent/rnic_counters.h"
#include "cni/node/broker/broker.h"
#include "cni/node/cluster/cluster_chores.h"
#include "cni/node/nri/container_handlers.h"
#include "cni/node/nri/runtime_pods.h"
#include "cni/node/pods/client_address_delivery.h"
#include "cni/node/pods/connection_keeper.h"
#include "cni/node/pods/pod_answers.h"
#include "cni/node/pods/pod_check.h"
#include "cni/node/reports/encryption_notes.h"
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

Outcome<FileDescriptor> open_log_socket(const std::string& path) {
  const auto address = UnixAddress::of_path(path);
  if (!address) return failed(path, ENAMETOOLONG);
  auto socket = make_unix_socket(SOCK_DGRAM);
  if (!socket) return failed(path, socket.error().system);
  (void)::unlink(path.c_str());  // of the agent before
  const auto bound = bind_unix_socket(socket->get(), *address, 0600);
  if (!bound) return failed(path, bound.error().system);
  return std::move(*socket);
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

struct Agent::Parts {
  AgentSettings settings;
  AgentMetrics metrics;
  std::vector<std::string> wanted_ports;  // those that the configuration names
  std::optional<PodCheck> check;
  std::optional<EncryptionNotes> encryption;
  FileDescriptor log_socket;
  FileDescriptor watcher;
  std::optional<RnicCounterReader> rnic_counters;
  std::unique_ptr<Probes> probes;
  std::unique_ptr<Broker> broker;
  std::thread broker_thread;
  std::unique_ptr<KeeperNode> keeper;
  std::unique_ptr<AgentPods> pods;
  std::unique_ptr<PodAnswers> answers;
  std::optional<ClusterChores> chores;
  std::optional<nri::AccessDelivery> access_delivery;
  std::optional<nri::RnicAccessHandler> rnic_access;
  nri::RuntimePods runtime_pods;
  std::optional<nri::ContainerHandlers> handlers;
  std::unique_ptr<nri::NriPlugin> nri_plugin;

  ~Parts() {
    chores.reset();  // uses the connection to the runtime
    nri_plugin.reset();
    access_delivery.reset();
    answers.reset();
    if (pods) pods->stop();
    // A thread that a pod blocks ends with the process.
    if (pods && !pods->all_ended()) (void)keeper.release();
    if (broker) broker->stop();
    if (broker_thread.joinable()) broker_thread.join();
    probes.reset();
    (void)::unlink((settings.places.run_dir + "/" + kLogSocketName).c_str());
  }

  void note(const Outcome<Installed>& installed) {
    if (!installed) {
      metrics.set_install_ready(false);
      metrics.count_install(false);
      LogEvent(LogLevel::kError, kLogger, "install_failed")
          .field("what", installed.error().message);
      return;
    }
    metrics.set_install_ready(installed->change != ListChange::kWaiting);
    if (installed->change == ListChange::kNone) return;
    const bool written = installed->change == ListChange::kWritten;
    if (written) metrics.count_install(true);
    LogEvent(LogLevel::kInfo, kLogger, written ? "installed" : "install_waits")
        .field("file", installed->file);
  }

  void collect() {
    const GarbageCount count = collect_dead(settings.places.run_dir);
    metrics.set_garbage(count.kept, count.collected);
    metrics.set_inventory(take_inventory(settings.rnics.sysfs), wanted_ports);
    if (count.collected != 0)
      LogEvent(LogLevel::kInfo, kLogger, "collected").field("attachments", count.collected);
  }

  void start_check() {
    check.emplace(settings.places.run_dir, settings.cluster.places.cgroup_root);
    encryption.emplace(settings.places.run_dir);
    const auto read = read_node_config(Json(settings.entry));
    if (read) wanted_ports = node::wanted_ports(read->config);
  }

  // Prints lines of the plugin, which have time and level. They come from a socket that only root
  // can open.
  void relay_log() {
    std::array<char, kLogLineBytesMax + 1024> line;
    for (;;) {
      const ssize_t count = ::recv(log_socket.get(), line.data(), line.size(), 0);
      if (count <= 0) return;
      metrics.count_plugin_line({line.data(), static_cast<std::size_t>(count)});
      std::string_view text(line.data(), static_cast<std::size_t>(count));
      if (text.ends_with('\n')) text.remove_suffix(1);
      log_foreign_line(text);
    }
  }

  // Without a broker, sidecars of this node use RNICs or TCP.
  void start_broker() {
    auto created = Broker::create(
        {settings.places.run_dir, settings.entry.value("proxyUid", kubernetes::kSidecarUid)});
    if (!created) {
      LogEvent(LogLevel::kError, kLogger, "no_broker").field("what", created.error().message);
      return;
    }
    broker = std::move(*created);
    metrics.show_broker(&broker->counts());
    broker_thread = std::thread([this] { broker->run(); });
  }

  // Without these threads, applications of this node see their own pod's address as the peer's
  // address, and the connections of a sidecar end with it.
  void start_pods() {
    const std::string& run_dir = settings.places.run_dir;
    const std::uint32_t uid = settings.entry.value("proxyUid", kubernetes::kSidecarUid);
    if (settings.keeper) {
      keeper = std::make_unique<KeeperNode>();
      keeper->sidecar_uid = uid;
      metrics.show_keeper(&keeper->counts);
    }
    auto created = AgentPods::create(
        run_dir,
        [run_dir, uid, node = keeper.get()](const AgentPod& pod, const PodThread::Here& here) {
          AgentPods::Duties duties;
          duties.push_back(std::make_unique<ClientAddressDelivery>(pod, run_dir, uid));
          if (node != nullptr)
            duties.push_back(std::make_unique<ConnectionKeeper>(pod, here, *node));
          return duties;
        });
    if (!created) {
      LogEvent(LogLevel::kError, kLogger, "no_pods").field("what", created.error().message);
      return;
    }
    pods = std::move(*created);
    metrics.show_pods(&pods->counts());
    if (const auto started = pods->start(); !started)
      LogEvent(LogLevel::kError, kLogger, "no_pods").field("what", to_string(started.error()));
  }

  // Without it sidecars of this node start without RNICs.
  void start_rnic_access() {
    const RnicAccessOptions& wanted = settings.rnics;
    if (wanted.mode != RnicAccessMode::kNri) return;
    const auto give_up = [](const std::string& what) {
      LogEvent(LogLevel::kError, kLogger, "no_rnic_access").field("what", what);
    };
    auto read = read_node_config(Json(settings.entry));
    if (!read) return give_up(read.error().message);
    nri::RnicAccessSettings access{std::move(read->config), wanted.policy, wanted.sysfs, "/proc"};
    access.config.run_dir = settings.places.run_dir;
    access.policy.sidecar_uid = access.config.proxy_uid;
    access_delivery.emplace(settings.places.run_dir,
                            nri::LatePlaces{"/proc", settings.cluster.places.cgroup_root});
    const auto delivers = access_delivery->start();
    if (!delivers) return give_up(to_string(delivers.error()));
    rnic_access.emplace(
        std::move(access), [] { return rdma_mode() == "exclusive"; }, *access_delivery);
    std::vector<nri::ContainerHandler*> all = {&*rnic_access};
    if (repairs_from(RepairSource::kRuntime)) all.push_back(&runtime_pods);
    handlers.emplace(std::move(all));
    auto started = nri::NriPlugin::start(wanted.socket, *handlers);
    if (!started) return give_up(to_string(started.error()));
    nri_plugin = std::move(*started);
    metrics.show_rnic_access(
        {&nri_plugin->counts(), &rnic_access->counts(), &access_delivery->counts()});
  }

  bool repairs_from(RepairSource source) const {
    return settings.cluster.repair && settings.cluster.repair_from == source;
  }

  std::optional<std::vector<NodePod>> pods_of_runtime() {
    if (!nri_plugin || !nri_plugin->counts().connected) return std::nullopt;
    std::vector<NodePod> listed;
    for (nri::RuntimePod& one : runtime_pods.list())
      listed.push_back({std::move(one.name_space), std::move(one.name), std::move(one.uid),
                        std::move(one.annotations), std::move(one.addresses), false,
                        std::move(one.netns), one.identity, "", ""});
    return listed;
  }

  // Without these answers, pods whose annotations the runtime does not pass are repaired later.
  void start_answers(const event::ApiServer& server) {
    auto started =
        PodAnswers::start(settings.places.run_dir, settings.cluster.places.cgroup_root, server);
    if (started)
      answers = std::move(*started);
    else
      LogEvent(LogLevel::kWarn, kLogger, "no_annotation_server")
          .field("what", started.error().message);
  }

  // Without these chores, pods are set up only when they start.
  void start_chores() {
    const ClusterSettings& wanted = settings.cluster;
    if (!wanted.repair && !wanted.label && !wanted.status) return;
    auto server = event::ApiServer::from_pod();
    const auto read = read_node_config(Json(settings.entry));
    if (server && read && !wanted.node.empty()) {
      if (repairs_from(RepairSource::kApi)) start_answers(*server);
      if (repairs_from(RepairSource::kRuntime) && settings.rnics.mode != RnicAccessMode::kNri)
        LogEvent(LogLevel::kWarn, kLogger, "no_repair")
            .field("what", "--repair-from runtime needs --rnic-access nri")
            .field("hint", "--repair-from api takes the pods from the API server");
      chores.emplace(wanted, std::move(*server), read->config, metrics, *check,
                     [this] { return pods_of_runtime(); });
      if (const auto started = chores->start(); !started)
        LogEvent(LogLevel::kError, kLogger, "no_cluster").field("what", to_string(started.error()));
      return;
    }
    LogEvent(LogLevel::kWarn, kLogger, "no_cluster")
        .field("what", wanted.node.empty() ? "--node-name is not given"
                       : server            ? read.error().message
                                           : server.error());
  }

  Outcome<void> serve() {
    if (settings.listen.empty()) return {};
    rnic_counters.emplace(settings.rnics.sysfs, kRnicCountersInterval);
    if (const auto started = rnic_counters->start(); !started)
      return fail(Code::kState, to_string(started.error()));
    metrics.show_rnic_counters(&*rnic_counters);
    probes = SMC_TRY(Probes::start(
        settings.listen,
        {[this] { return metrics.install_ready() ? "" : "the plugin is not installed"; },
         [this] { return metrics.text(); }, &metrics.http_refusals()}));
    return {};
  }
};

Agent::Agent(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Agent::~Agent() = default;

Outcome<std::unique_ptr<Agent>> Agent::start(AgentSettings settings) {
  auto parts = std::make_unique<Parts>();
  parts->settings = std::move(settings);
  const Places& places = parts->settings.places;
  // Created before the first check, so that no change is missed.
  parts->watcher = SMC_TRY(watch(places));
  const auto installed = SMC_TRY(install(places, parts->settings.entry));
  parts->note(installed);
  parts->log_socket = SMC_TRY(open_log_socket(places.run_dir + "/" + kLogSocketName));
  parts->start_check();
  parts->start_broker();
  parts->start_pods();
  parts->start_rnic_access();
  SMC_TRY(parts->serve());
  parts->start_chores();
  return std::unique_ptr<Agent>(new Agent(std::move(parts)));
}

void Agent::run() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  const FileDescriptor signals(::signalfd(-1, &set, SFD_CLOEXEC));
  auto next_collection = std::chrono::steady_clock::now();
  auto next_check = next_collection;
  LogEvent(LogLevel::kInfo, kLogger, "ready");
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_collection) {
      parts_->collect();
      next_collection = now + kCollectInterval;
    }
    if (now >= next_check) {
      parts_->metrics.set_pods(parts_->check->look());
      parts_->encryption->look();
      next_check = now + std::chrono::duration_cast<Duration>(parts_->settings.check_interval);
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(std::min(next_collection, next_check) - now)
            .count();
    std::array<pollfd, 3> waiting = {pollfd{signals.get(), POLLIN, 0},
                                     pollfd{parts_->log_socket.get(), POLLIN, 0},
                                     pollfd{parts_->watcher.get(), POLLIN, 0}};
    if (wait_for_events(waiting, left > 0 ? static_cast<int>(left) : 0) < 0) continue;
    if (waiting[0].revents != 0) break;
    if (waiting[1].revents != 0) parts_->relay_log();
    if (waiting[2].revents == 0) continue;
    // Programs that write a configuration often write several files.
    (void)::poll(waiting.data(), 1, kQuietMilliseconds);
    drain(parts_->watcher.get());
    parts_->note(install_entry(parts_->settings.places, parts_->settings.entry));
  }
  LogEvent(LogLevel::kInfo, kLogger, "stopped");
}

}  // namespace fairlead::cni::node
