// Tasks of fairlead-node that use the API server. They run on a separate thread, because calls
// block. They label the node, repair pods that are older than the plugin, and write a report of the
// node. They create Events about repairs and about the first fallbacks of pods. Without an API
// server the node works nevertheless.
//
// Timers: `interval` between two passes; kLabelInterval until the label is set again, because
// others may have removed it; kRepeatInterval until the next Event about a pod; `status_interval`
// between reports.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/linux/service_thread.h"
#include "base/paced_lines.h"
#include "base/time.h"
#include "cni/node/agent/agent_metrics.h"
#include "cni/node/agent/repair.h"
#include "cni/node/pods/late_pods.h"
#include "cni/node/pods/pod_calls.h"
#include "cni/node/pods/pod_check.h"
#include "cni/node/pods/pod_lister.h"
#include "cni/node/pods/sidecar_answers.h"
#include "cni/node/reports/fallback_events.h"
#include "cni/node/reports/hand_over_events.h"
#include "cni/node/reports/status_report.h"
#include "event/https/api_server.h"

namespace fairlead::cni::node {

// Where the pods to repair come from: the container runtime's NRI, or the API server, which needs
// the right to list the pods of the whole cluster.
enum class RepairSource : std::uint8_t { kRuntime, kApi };

struct ClusterSettings {
  std::string node;     // its name in the cluster, unless the agent's token has one
  bool repair = false;  // pods
  RepairSource repair_from = RepairSource::kRuntime;
  bool label = false;                          // the node
  bool status = false;                         // write the report
  bool events = false;                         // about fallbacks and hand-overs; needs the report
  std::chrono::duration<double> interval{15};  // between two passes
  std::chrono::duration<double> status_interval{60};  // between two reports
  std::string version;                                // of this program
  std::string report_namespace;                       // empty for no report
  RepairPlaces places;
};

class ClusterChores {
 public:
  static constexpr Duration kLabelInterval = std::chrono::minutes(10);
  // Time before the next Event about a pod that cannot be repaired.
  static constexpr Duration kRepeatInterval = std::chrono::minutes(10);
  // Pods with Events; beyond this number all are forgotten, and reported again.
  static constexpr std::size_t kToldMax = 8192;
  // Time for the sidecars of one report; the remaining ones are queried for the next report.
  static constexpr Duration kSidecarsMax = std::chrono::seconds(5);

  // `metrics` and `check` outlive this. `metrics` knows whether the plugin is installed, `check`
  // knows the pods. `runtime_pods` is called with RepairSource::kRuntime, on the thread.
  ClusterChores(ClusterSettings settings, event::ApiServer server, NodeConfig config,
                AgentMetrics& metrics, const PodCheck& check, RuntimePodList runtime_pods);
  // Errors: of ServiceThread::start().
  Result<void> start() {
    return thread_.start([this] { run(); });
  }

 private:
  using Trouble = std::string;  // a sentence; empty for none
  enum class EventAnswer { kMade, kRefused, kNotNow, kNone };

  void run();
  void look();
  void identify();
  Trouble tend_label();
  Trouble repair_pods_of_api();
  void repair_pods_of_runtime();
  // `is_whole`: `pods` are all that may need a repair.
  void repair_pods(const std::vector<NodePod>& pods, bool is_whole);
  Trouble write_report();
  void tell_events(const std::vector<PodLine>& pods);
  EventAnswer make_event(const event::ClusterEvent& event);
  std::vector<PodLine> ask_sidecars();
  bool is_news(const Repaired& repaired);
  void tell(const Repaired& repaired);
  void log_once(const char* event, std::string& told, const Trouble& trouble);

  ClusterSettings settings_;
  NodeIdentity node_;  // of the token, or of the settings
  event::ApiServer server_;
  PodLister lister_{server_};
  NodeConfig config_;
  AgentMetrics& metrics_;
  struct Told {
    std::string trouble;
    TimePoint at;
  };
  std::map<std::string, Told> told_;  // by uid of the pod
  PacedLines lines_;
  struct {
    Trouble label, list, report;
    bool other_node = false;
  } told_of_;  // problems in the log, so that each is logged once
  const PodCheck& check_;
  struct {
    FallbackEvents fallbacks;
    HandOverEvents hand_overs;
  } events_;
  TimePoint reported_at_{};
  SidecarAnswers sidecars_;
  PodCalls calls_;
  LatePods late_pods_;
  struct {
    std::optional<bool> ready;
    TimePoint at{};
  } labelled_;  // last label of the node, and its time

  ServiceThread thread_;
};

}  // namespace fairlead::cni::node
