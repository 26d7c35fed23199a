#include "cni/node/pods/late_pods.h"

#include <chrono>

#include "cni/node/agent/repair.h"
#include "cni/node/pods/sidecar_counts.h"

namespace fairlead::cni::node {

std::optional<std::vector<NodePod>> LatePods::look() {
  std::optional<std::vector<NodePod>> pods = list_();
  if (!pods) return std::nullopt;
  *pods = without_state(run_dir_, std::move(*pods));
  std::vector<PodFinding> places(pods->size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i].identity = (*pods)[i].identity;
  const TimePoint deadline = std::chrono::steady_clock::now() + kSidecarsMax;
  for (const std::size_t i : answers_.order(places)) {
    if (std::chrono::steady_clock::now() > deadline) break;
    NodePod& pod = (*pods)[i];
    const auto ready = calls_.ask(name_of_pod(pod.identity), kSidecarCallMax,
                                  [netns = pod.netns, identity = pod.identity, uid = proxy_uid_] {
                                    return ask_readiness(netns, identity, uid).has_value();
                                  });
    pod.sidecar_runs = ready.value_or(false);
    answers_.record(pod.identity, pod.sidecar_runs ? std::optional(SidecarCounts{}) : std::nullopt);
  }
  return pods;
}

}  // namespace fairlead::cni::node
