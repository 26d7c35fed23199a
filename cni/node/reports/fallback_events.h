// Decides which fallbacks of this node's pods become Kubernetes Events: the first one of each
// reason of each pod. Pure. For one thread.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/fallback.h"
#include "cni/node/pods/pod_turns.h"
#include "cni/node/reports/status_report.h"
#include "event/https/cluster_event.h"

namespace fairlead::cni::node {

struct FallbackEvent {
  std::string pod_uid;
  std::string_view reason;  // of fallback_table()
  event::ClusterEvent event;
};

class FallbackEvents {
 public:
  // Maximum number of Events per report. Others follow with later reports, so that a node that
  // starts hundreds of pods at once does not flood the API server.
  static constexpr std::size_t kEventsPerReportMax = 8;
  // Limit for one pod, so that a pod with many reasons leaves room for others.
  static constexpr std::size_t kEventsPerPodMax = 2;

  // The Events that are due. A full report ends after the last pod that fits, and the next report
  // starts with the pod after it. Forgets pods that are not in `pods`. Ignores pods without a UID,
  // and reasons that are not in fallback_table(), because a sidecar may send any answer.
  std::vector<FallbackEvent> due(const std::vector<PodLine>& pods, const std::string& node);

  // The API server has accepted the Event or refused it permanently. It is not due again.
  void made(const FallbackEvent& event);

 private:
  void add_due(const PodLine& line, const std::string& node, std::vector<FallbackEvent>& events);

  std::map<std::string, std::set<std::string_view>> made_;  // reasons by UID of the pod
  PodTurns turns_;
};

}  // namespace fairlead::cni::node
