// What the agent runs for the node beside its own loop. Each service starts with the agent or not
// at all, says in the log why not, and ends with its object.
//
// Threads: all functions on the agent's thread, but for what another says.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/linux/handle.h"
#include "cni/node/agent/agent_metrics.h"
#include "cni/node/agent/agent_pods.h"
#include "cni/node/broker/broker.h"
#include "cni/node/cluster/cluster_chores.h"
#include "cni/node/nri/access_delivery.h"
#include "cni/node/nri/container_handlers.h"
#include "cni/node/nri/nri_plugin.h"
#include "cni/node/nri/rnic_access.h"
#include "cni/node/nri/runtime_pods.h"
#include "cni/node/pods/connection_keeper.h"

namespace fairlead::cni::node {

// Prints the lines of the plugin, which have time and level. They come from a socket that only root
// can open.
class PluginLog {
 public:
  // Errors: kState.
  static Outcome<PluginLog> open(std::string path);
  PluginLog(PluginLog&&) = default;
  PluginLog& operator=(PluginLog&&) = default;
  ~PluginLog();

  int descriptor() const { return socket_.get(); }
  // All lines that wait.
  void relay(AgentMetrics& metrics);

 private:
  PluginLog(std::string path, FileDescriptor socket)
      : path_(std::move(path)), socket_(std::move(socket)) {}

  std::string path_;
  FileDescriptor socket_;
};

// The node's broker and its thread. Without it, sidecars of this node use RNICs or TCP.
class BrokerService {
 public:
  BrokerService() = default;
  BrokerService(const BrokerService&) = delete;
  BrokerService& operator=(const BrokerService&) = delete;
  ~BrokerService();

  void start(const std::string& run_dir, std::uint32_t sidecar_uid, AgentMetrics& metrics);

 private:
  std::unique_ptr<Broker> broker_;
  std::thread thread_;
};

// The threads of pods with a sidecar. Without them, applications of this node see their own pod's
// address as the peer's address, and the connections of a sidecar end with it.
class SidecarPods {
 public:
  SidecarPods() = default;
  SidecarPods(const SidecarPods&) = delete;
  SidecarPods& operator=(const SidecarPods&) = delete;
  ~SidecarPods();

  // `keeps_connections`: of sidecars that are replaced.
  void start(const std::string& run_dir, std::uint32_t sidecar_uid, bool keeps_connections,
             AgentMetrics& metrics);

 private:
  std::unique_ptr<KeeperNode> keeper_;
  std::unique_ptr<AgentPods> pods_;
};

// The plugin at the container runtime that gives sidecars their RNICs. Without it, sidecars of this
// node start without RNICs.
class RnicAccessService {
 public:
  struct Settings {
    nri::RnicAccessSettings access;
    std::string socket;  // of the runtime
    std::string cgroup_root;
    bool lists_pods = false;  // for pods()
  };
  void start(Settings settings, AgentMetrics& metrics);
  // The pods of the runtime; nothing while it is not connected. From any thread.
  std::optional<std::vector<NodePod>> pods();

 private:
  nri::RuntimePods runtime_pods_;
  std::optional<nri::AccessDelivery> delivery_;
  std::optional<nri::RnicAccessHandler> access_;
  std::optional<nri::ContainerHandlers> handlers_;
  std::unique_ptr<nri::NriPlugin> plugin_;
};

}  // namespace fairlead::cni::node
