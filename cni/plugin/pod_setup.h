// Applies the plan of a pod, reverts it, and verifies that it is in place.
#pragma once

#include "cni/plugin/node_config.h"
#include "cni/plugin/plugin_error.h"
#include "cni/plugin/request.h"
#include "cni/plugin/wishes.h"
#include "cni/state/state.h"

namespace fairlead::cni {

// `cgroup`: directory of the pod's cgroup, or the reason why it is unknown. Failed steps are
// recorded as problems of the state, and the other steps are still done. The state is stored before
// the first change and after the last. The error is that of storing it.
Outcome<AttachmentState> set_up_pod(const Request& request, const NodeConfig& config,
                                    const Wishes& wishes, const ContainerState& container,
                                    const Result<std::string>& cgroup);

// Reverts set_up_pod() as far as the pod still exists. If the path of its namespace now belongs to
// another namespace, that one is not changed.
void undo_pod(const AttachmentState& state);

// Error: the first difference from the setup of set_up_pod().
Outcome<void> check_pod(const AttachmentState& state);

}  // namespace fairlead::cni
