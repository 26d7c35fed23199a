// What fairlead-node does with the API server, on a thread of its own because it waits for it:
// labels its node, repairs pods that were started before the plugin was there, about which it
// makes Events, writes a report of its node, and makes Events about the first fallbacks of pods.
// Without an API server a node works all the same.
//
// Timers: `interval` between two looks; the label is set again after kLabelInterval, because
// anybody may have taken it off; kRepeatInterval before more Events about one pod; a report every
// `status_interval`.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/paced_lines.h"
#include "base/time.h"
#include "cni/node/agent_metrics.h"
#include "cni/node/fallback_events.h"
#include "cni/node/pod_check.h"
#include "cni/node/repair.h"
#include "cni/node/sidecar_answers.h"
#include "cni/node/status_report.h"
#include "event/https/api_server.h"

namespace fairlead::cni::node {

struct ClusterSettings {
  std::string node;     // its name in the cluster; empty for neither of the two
  bool repair = false;  // pods
  bool label = false;   // the node
  bool status = false;  // the report
  bool events = false;  // about fallbacks, with the report
  std::chrono::duration<double> interval{15};         // between two looks
  std::chrono::duration<double> status_interval{60};  // between two reports
  std::string version;                                // of this program
  ReportPlace report;
  RepairPlaces places;
};

class ClusterChores {
 public:
  static constexpr Duration kLabelInterval = std::chrono::minutes(10);
  // Before more is said about a pod that cannot be repaired.
  static constexpr Duration kRepeatInterval = std::chrono::minutes(10);
  // Pods a page. One that does not fit into an answer is asked for one by one.
  static constexpr unsigned kPodsPerPage = 32;
  static constexpr std::size_t kPodsMax = 4096;

  // For the sidecars of one report; those beyond it are asked for the next.
  static constexpr Duration kSidecarsMax = std::chrono::seconds(5);

  // `metrics` and `check` outlive this. `metrics` says whether the plugin is installed, `check`
  // what pods there are.
  ClusterChores(ClusterSettings settings, event::ApiServer server, NodeConfig config,
                AgentMetrics& metrics, const PodCheck& check);
  ~ClusterChores();

 private:
  using Trouble = std::string;  // a sentence; empty for none
  enum class EventAnswer { kMade, kRefused, kNotNow, kNone };

  void run();
  void look();
  Trouble tend_label();
  Trouble repair_pods();
  Trouble write_report();
  void tell_fallbacks(const std::vector<PodLine>& pods);
  EventAnswer make_event(const event::ClusterEvent& event);
  std::vector<PodLine> ask_sidecars();
  tl::expected<std::vector<NodePod>, std::string> list_pods() const;
  tl::expected<PodPage, std::string> read_page(const std::string& next) const;
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
  PacedLines lines_;
  std::string label_trouble_, list_trouble_;
  const PodCheck& check_;
  std::string report_trouble_;
  FallbackEvents fallback_events_;
  TimePoint reported_at_{};
  SidecarAnswers sidecars_;
  std::optional<bool> labelled_;  // what the node was told, and when
  TimePoint labelled_at_{};

  std::mutex mutex_;  // guards stopped_
  std::condition_variable changed_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace fairlead::cni::node
