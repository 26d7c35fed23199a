// Decides which hand-overs of this node's sidecars become Kubernetes Events: each one once. Pure.
// For one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cni/node/status_report.h"
#include "event/https/cluster_event.h"

namespace fairlead::cni::node {

struct HandOverEvent {
  std::string pod_uid;
  std::uint64_t parked_nanoseconds = 0;  // no two hand-overs of a pod have the same
  event::ClusterEvent event;
};

class HandOverEvents {
 public:
  // Events of one report. The others follow with later reports, so that a rollout does not flood
  // the API server.
  static constexpr std::size_t kEventsPerReportMax = 8;

  // The Events that are due. Forgets pods that are not in `pods`, and ignores those without a UID.
  std::vector<HandOverEvent> due(const std::vector<PodLine>& pods, const std::string& node);

  // The API server has accepted the Event or refused it permanently. It is not due again.
  void made(const HandOverEvent& event) { made_[event.pod_uid] = event.parked_nanoseconds; }

 private:
  std::map<std::string, std::uint64_t> made_;  // parked_nanoseconds by UID of the pod
};

}  // namespace fairlead::cni::node
