// Decides which hand-overs of this node's sidecars become Kubernetes Events: each one once. Pure.
// For one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cni/node/pods/pod_turns.h"
#include "cni/node/reports/status_report.h"
#include "event/https/cluster_event.h"

namespace fairlead::cni::node {

struct HandOverEvent {
  std::string pod_uid;
  std::uint64_t parked_nanoseconds = 0;  // unique among the hand-overs of a pod
  event::ClusterEvent event;
};

class HandOverEvents {
 public:
  // Maximum number of Events per report. Others follow with later reports, so that a rollout does
  // not flood the API server.
  static constexpr std::size_t kEventsPerReportMax = 8;
  // Limit for one pod, whose sidecar may send any answer.
  static constexpr unsigned kEventsPerPodMax = 32;

  // The Events that are due. A full report ends after the last pod that fits, and the next report
  // starts with the pod after it. Forgets pods that are not in `pods`, and ignores those without a
  // UID.
  std::vector<HandOverEvent> due(const std::vector<PodLine>& pods, const std::string& node);

  // The API server has accepted the Event or refused it permanently. It is not due again.
  void made(const HandOverEvent& event);

 private:
  bool is_due(const PodLine& line) const;

  struct Made {
    std::uint64_t parked_nanoseconds = 0;  // the latest
    unsigned count = 0;
  };
  std::map<std::string, Made> made_;  // by UID of the pod
  PodTurns turns_;
};

}  // namespace fairlead::cni::node
