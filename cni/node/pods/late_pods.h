// Pods that started before the plugin was installed, as the container runtime describes them, and
// whether their sidecars accept connections. For one thread, which enters network namespaces.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "cni/node/pods/node_pods.h"
#include "cni/node/pods/pod_calls.h"
#include "cni/node/pods/sidecar_answers.h"

namespace fairlead::cni::node {

// The pods of this node as its runtime reports them, with the paths of their network namespaces.
// Empty without a connection to the runtime.
using RuntimePodList = std::function<std::optional<std::vector<NodePod>>()>;

class LatePods {
 public:
  // Time limit for the sidecars per look(); the remaining ones are asked by the next call.
  static constexpr Duration kSidecarsMax = std::chrono::seconds(5);

  // `proxy_uid`: user of the sidecars.
  LatePods(RuntimePodList list, std::string run_dir, std::uint32_t proxy_uid)
      : list_(std::move(list)), run_dir_(std::move(run_dir)), proxy_uid_(proxy_uid) {}

  // The pods that opted in and have no state. Empty without a connection to the runtime.
  std::optional<std::vector<NodePod>> look();

 private:
  RuntimePodList list_;
  std::string run_dir_;
  std::uint32_t proxy_uid_;
  PodCalls calls_;
  SidecarAnswers answers_;  // a pod that stalls delays only pods that stall
};

}  // namespace fairlead::cni::node
