// Periodic check whether the pods of this node still have the plugin's setup. Logs each missing
// part once, and counts for the metrics.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "cni/node/pods/pod_calls.h"
#include "cni/plugin/pod_parts.h"

namespace fairlead::cni::node {

struct PodCounts {
  // Number of pods by part, and by state in the order of kPartStates.
  std::array<std::array<std::size_t, kPartStates.size()>, kPodParts.size()> parts{};
  std::size_t translated = 0;  // redirected by the packet filter, because programs were impossible
};

// Result of the last check of one pod.
struct PodFinding {
  std::string name_space, name, uid;  // may be empty, as in CNI_ARGS
  std::string netns;                  // of its network
  NetnsIdentity identity;
  std::array<PartState, kPodParts.size()> states{};
  std::string redirect_reason;  // of Redirect: why it has the packet filter; else empty
};

// look() is for one thread; findings() for any.
class PodCheck {
 public:
  // Between two checks; each costs some system calls per pod.
  static constexpr Duration kInterval = std::chrono::seconds(30);

  PodCheck(std::string run_dir, std::string cgroup_root)
      : run_dir_(std::move(run_dir)), cgroup_root_(std::move(cgroup_root)) {}

  // How long a pod may delay its check. After that, its parts count as unknown.
  static constexpr Duration kCallMax = std::chrono::seconds(1);

  // Skips pods that are being created or have ended.
  PodCounts look();
  std::vector<PodFinding> findings() const;

 private:
  void tell(const AttachmentState& state, const PodReport& report);

  PodReport inspect(const AttachmentState& state);

  const std::string run_dir_;
  const std::string cgroup_root_;
  PodCalls calls_;
  std::map<std::string, std::string> told_;  // by container: what was missing at the last check
  mutable std::mutex mutex_;
  std::vector<PodFinding> findings_;
};

}  // namespace fairlead::cni::node
