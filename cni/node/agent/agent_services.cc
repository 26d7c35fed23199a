#include "cni/node/agent/agent_services.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/linux/unix_socket.h"
#include "base/log.h"
#include "cni/node/agent/inventory.h"
#include "cni/node/pods/client_address_delivery.h"
#include "cni/plugin/plugin_log.h"

namespace fairlead::cni::node {
namespace {

constexpr const char* kLogger = "node";

tl::unexpected<PluginError> failed(const std::string& what, int error_number) {
  return fail(Code::kState, to_string(fairlead::system_error(what.c_str(), error_number)));
}

}  // namespace

Outcome<PluginLog> PluginLog::open(std::string path) {
  const auto address = UnixAddress::of_path(path);
  if (!address) return failed(path, ENAMETOOLONG);
  auto socket = make_unix_socket(SOCK_DGRAM);
  if (!socket) return failed(path, socket.error().system);
  (void)::unlink(path.c_str());  // of the agent before
  const auto bound = bind_unix_socket(socket->get(), *address, 0600);
  if (!bound) return failed(path, bound.error().system);
  return PluginLog(std::move(path), std::move(*socket));
}

PluginLog::~PluginLog() {
  if (socket_) (void)::unlink(path_.c_str());
}

void PluginLog::relay(AgentMetrics& metrics) {
  std::array<char, kLogLineBytesMax + 1024> line;
  for (;;) {
    const ssize_t count = ::recv(socket_.get(), line.data(), line.size(), 0);
    if (count <= 0) return;
    std::string_view text(line.data(), static_cast<std::size_t>(count));
    metrics.count_plugin_line(text);
    if (text.ends_with('\n')) text.remove_suffix(1);
    log_foreign_line(text);
  }
}

void BrokerService::start(const std::string& run_dir, std::uint32_t sidecar_uid,
                          AgentMetrics& metrics) {
  auto pods = PodWatch::of_states(run_dir);
  auto created = pods ? Broker::create({run_dir, sidecar_uid}, std::move(*pods))
                      : tl::unexpected(pods.error());
  if (!created) {
    LogEvent(LogLevel::kError, kLogger, "no_broker").field("what", created.error().message);
    return;
  }
  broker_ = std::move(*created);
  metrics.show_broker(&broker_->counts());
  thread_ = std::thread([this] { broker_->run(); });
}

BrokerService::~BrokerService() {
  if (broker_) broker_->stop();
  if (thread_.joinable()) thread_.join();
}

void SidecarPods::start(const std::string& run_dir, std::uint32_t sidecar_uid,
                        bool keeps_connections, AgentMetrics& metrics) {
  if (keeps_connections) {
    keeper_ = std::make_unique<KeeperNode>();
    keeper_->sidecar_uid = sidecar_uid;
    metrics.show_keeper(&keeper_->counts);
  }
  auto created = AgentPods::create(run_dir, [run_dir, sidecar_uid, node = keeper_.get()](
                                                const AgentPod& pod, const PodThread::Here& here) {
    AgentPods::Duties duties;
    duties.push_back(std::make_unique<ClientAddressDelivery>(pod, run_dir, sidecar_uid));
    if (node != nullptr) duties.push_back(std::make_unique<ConnectionKeeper>(pod, here, *node));
    return duties;
  });
  if (!created) {
    LogEvent(LogLevel::kError, kLogger, "no_pods").field("what", created.error().message);
    return;
  }
  pods_ = std::move(*created);
  metrics.show_pods(&pods_->counts());
  if (const auto started = pods_->start(); !started)
    LogEvent(LogLevel::kError, kLogger, "no_pods").field("what", to_string(started.error()));
}

SidecarPods::~SidecarPods() {
  if (!pods_) return;
  pods_->stop();
  // A thread that a pod blocks ends with the process.
  if (!pods_->all_ended()) (void)keeper_.release();
}

void RnicAccessService::start(Settings settings, AgentMetrics& metrics) {
  const auto give_up = [](const Error& error) {
    LogEvent(LogLevel::kError, kLogger, "no_rnic_access").field("what", to_string(error));
  };
  delivery_.emplace(settings.access.config.run_dir, nri::LatePlaces{"/proc", settings.cgroup_root});
  const auto delivers = delivery_->start();
  if (!delivers) return give_up(delivers.error());
  access_.emplace(
      std::move(settings.access), [] { return rdma_mode() == "exclusive"; }, *delivery_);
  std::vector<nri::ContainerHandler*> all = {&*access_};
  if (settings.lists_pods) all.push_back(&runtime_pods_);
  handlers_.emplace(std::move(all));
  auto started = nri::NriPlugin::start(settings.socket, *handlers_);
  if (!started) return give_up(started.error());
  plugin_ = std::move(*started);
  metrics.show_rnic_access({&plugin_->counts(), &access_->counts(), &delivery_->counts()});
}

std::optional<std::vector<NodePod>> RnicAccessService::pods() {
  if (!plugin_ || !plugin_->counts().connected) return std::nullopt;
  std::vector<NodePod> listed;
  for (nri::RuntimePod& one : runtime_pods_.list())
    listed.push_back({std::move(one.name_space), std::move(one.name), std::move(one.uid),
                      std::move(one.annotations), std::move(one.addresses), false,
                      std::move(one.netns), one.identity, "", ""});
  return listed;
}

}  // namespace fairlead::cni::node
