// Doing to a pod what was planned, undoing it, and looking whether it still stands.
#pragma once

#include "cni/node_config.h"
#include "cni/plugin_error.h"
#include "cni/request.h"
#include "cni/state.h"
#include "cni/wishes.h"

namespace fairlead::cni {

// `cgroup`: the directory of the pod's, or why it is not known. Whatever fails goes into the
// state's problems, and the rest is done all the same. The state is stored before the pod is
// touched, and when all is done. The error is that of the store.
Outcome<AttachmentState> set_up_pod(const Request& request, const NodeConfig& config,
                                    const Wishes& wishes, const ContainerState& container,
                                    const Result<std::string>& cgroup);

// Leaves a pod as it was before set_up_pod(), as far as it still exists; its namespace's path may
// stand for another one by now, which is not touched.
void undo_pod(const AttachmentState& state);

// What is not as set_up_pod() left it: the first finding.
Outcome<void> check_pod(const AttachmentState& state);

}  // namespace fairlead::cni
