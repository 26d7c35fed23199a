// What fairlead-node does with the API server, on a thread of its own because it waits for it:
// repairs pods that were started before the plugin was there, and makes Events about them. Without
// an API server a node works all the same.
//
// Timers: `interval` between two looks, kRepeatInterval before more Events about one pod.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/time.h"
#include "cni/node/agent_metrics.h"
#include "cni/node/repair.h"
#include "event/https/api_server.h"

namespace fairlead::cni::node {

struct ClusterSettings {
  std::string node;  // its name in the cluster
  bool repair = false;
  std::chrono::duration<double> interval{15};  // between two looks
  RepairPlaces places;
};

class ClusterChores {
 public:
  // Before more is said about a pod that cannot be repaired.
  static constexpr Duration kRepeatInterval = std::chrono::minutes(10);
  // Pods a page. One that does not fit into an answer is asked for one by one.
  static constexpr unsigned kPodsPerPage = 32;
  static constexpr std::size_t kPodsMax = 4096;

  // `metrics` outlives this.
  ClusterChores(ClusterSettings settings, event::ApiServer server, NodeConfig config,
                AgentMetrics& metrics);
  ~ClusterChores();

 private:
  using Trouble = std::string;  // a sentence; empty for none

  void run();
  void look();
  Trouble repair_pods();
  tl::expected<std::vector<NodePod>, std::string> list_pods() const;
  tl::expected<PodPage, std::string> read_page(const std::string& next) const;
  tl::expected<std::string, std::string> call(event::HttpsRequest request, int expected) const;
  bool is_news(const Repaired& repaired);
  void tell(const Repaired& repaired);
  void log_once(const char* event, std::string& told, const Trouble& trouble);

  ClusterSettings settings_;
  event::ApiServer server_;
  NodeConfig config_;
  AgentMetrics& metrics_;
  struct Told {
    std::string trouble;
    TimePoint at;
  };
  std::map<std::string, Told> told_;  // by uid of the pod
  std::string list_trouble_;

  std::mutex mutex_;  // guards stopped_
  std::condition_variable changed_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace fairlead::cni::node
