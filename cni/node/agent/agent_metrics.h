// The counters of fairlead-node. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "cni/node/agent/agent_metric_table.h"
#include "cni/node/agent/agent_pods.h"
#include "cni/node/agent/inventory.h"
#include "cni/node/agent/rnic_counters.h"
#include "cni/node/broker/broker.h"
#include "cni/node/nri/nri_plugin.h"
#include "cni/node/nri/rnic_access.h"
#include "cni/node/pods/connection_keeper.h"
#include "cni/node/pods/pod_check.h"
#include "event/http/http_refusals.h"
#include "exposition/families.h"

namespace fairlead::cni::node {

// Counters of the parts that give sidecars their RNICs.
struct RnicAccessCounts {
  const nri::NriPlugin::Counts* plugin = nullptr;
  const nri::RnicAccessHandler::Counts* handler = nullptr;
  const nri::AccessDelivery::Counts* delivery = nullptr;
};

class AgentMetrics {
 public:
  void set_install_ready(bool ready);
  void count_install(bool good);
  // Counts a line of the plugin's log; malformed lines count as event "other".
  void count_plugin_line(std::string_view line);
  void count_repair(bool done) { ++(done ? repaired_ : not_repaired_); }
  void count_api_error() { ++api_errors_; }
  void set_garbage(std::size_t kept, std::size_t collected);
  void set_pods(const PodCounts& counts);
  // Pods that run without any attachment, by the last list of the API server.
  void set_not_redirected(std::size_t count) { not_redirected_ = count; }
  // Pods that the API server described at too great a length, by its last list.
  void set_pods_unread(std::size_t count) { pods_unread_ = count; }
  // `wanted`: ports that the configuration names, as "mlx5_0/1".
  void set_inventory(const Inventory& inventory, const std::vector<std::string>& wanted);
  // Call before text(); `counts` outlives the metrics.
  void show_broker(const Broker::Counts* counts) { broker_ = counts; }
  void show_keeper(const KeeperCounts* counts) { keeper_ = counts; }
  void show_pods(const AgentPodCounts* counts) { agent_pods_ = counts; }
  void show_rnic_counters(const RnicCounterReader* reader) { rnic_counters_ = reader; }
  void show_rnic_access(RnicAccessCounts counts) { rnic_access_ = counts; }

  // Counters for requests that the server of the probes refuses.
  event::HttpRefusals& http_refusals() { return http_refusals_; }

  bool install_ready() const;
  // "connected", "not_connected", or "off" where the runtime is not asked.
  std::string nri_state() const;
  std::string text() const;  // in Prometheus' format

 private:
  void add_pods(exposition::Families<AgentMetric>& out) const;

  mutable std::mutex mutex_;
  bool install_ready_ = false;
  std::uint64_t installs_good_ = 0;
  std::uint64_t installs_bad_ = 0;
  std::map<std::pair<std::string, std::string>, std::uint64_t> events_;  // command, event
  std::size_t attachments_ = 0;
  PodCounts pods_{};
  std::uint64_t collected_ = 0;
  std::map<std::string, std::size_t> rnics_;  // by state
  const Broker::Counts* broker_ = nullptr;
  const KeeperCounts* keeper_ = nullptr;
  const AgentPodCounts* agent_pods_ = nullptr;
  RnicAccessCounts rnic_access_;
  const RnicCounterReader* rnic_counters_ = nullptr;
  event::HttpRefusals http_refusals_;
  std::atomic<std::uint64_t> repaired_{0}, not_repaired_{0}, api_errors_{0};
  std::atomic<std::size_t> not_redirected_{0}, pods_unread_{0};
};

}  // namespace fairlead::cni::node
