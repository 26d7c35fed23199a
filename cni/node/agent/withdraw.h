// Uninstalls Fairlead from every node through the DaemonSets of fairlead-node: each restarts its
// pods with FAIRLEAD_LEAVE, and a pod is ready when its node is done. A Job of the chart does this
// before the chart's objects are deleted. Source: Kubernetes API reference, DaemonSet v1 apps;
// "Update API Objects in Place Using kubectl patch", section on strategic merge patches.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "event/https/api_server.h"

namespace fairlead::cni::node {

// The variable that makes `fairlead-node run` uninstall; see leave.h.
inline constexpr const char* kLeaveVariable = "FAIRLEAD_LEAVE";

struct WithdrawSettings {
  std::string name_space;
  std::vector<std::string> daemonsets;
  std::chrono::duration<double> interval{1}, timeout{240};
  bool best_effort = false;  // the caller does not count nodes without an answer as failures
};

// Progress of a DaemonSet's pods, from its status.
struct Rollout {
  std::int64_t wanted = 0;
  std::int64_t done = 0;  // pods of the present template that are ready
  bool known = false;     // the status refers to the present template
  bool complete() const { return known && done >= wanted; }
};
Rollout read_rollout(std::string_view daemonset);

// The patch that makes all pods of a DaemonSet uninstall at the same time.
std::string leave_patch();

// True if all nodes are done. Logs the progress. A missing DaemonSet counts as done. Blocks for
// `timeout` and one call at most.
bool withdraw(const event::ApiServer& server, const WithdrawSettings& settings);

}  // namespace fairlead::cni::node
