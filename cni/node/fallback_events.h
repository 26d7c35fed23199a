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
#include "cni/node/status_report.h"
#include "event/https/cluster_event.h"

namespace fairlead::cni::node {

struct FallbackEvent {
  std::string pod_uid;
  std::string_view reason;  // of fallback_table()
  event::ClusterEvent event;
};

class FallbackEvents {
 public:
  // Events of one report. The others follow with the next report, so that a node that starts
  // hundreds of pods at once does not flood the API server.
  static constexpr std::size_t kEventsPerReportMax = 8;

  // The Events that are due. Forgets pods that are not among `pods`. Leaves out pods without a UID
  // and reasons that are not in fallback_table(): a sidecar may answer anything.
  std::vector<FallbackEvent> due(const std::vector<PodLine>& pods, const std::string& node);

  // The API server has taken it; the same is not due again.
  void made(const FallbackEvent& event);

 private:
  std::map<std::string, std::set<std::string_view>> made_;  // reasons by UID of the pod
};

}  // namespace fairlead::cni::node
