// Determines which destinations of a pod are encrypted below TCP: by IPsec policies, or by routes
// to links that encrypt, in the network namespaces of the pod and of its node. Pure.
//
// The result may contain destinations whose packets are not encrypted, because priorities, marks
// and ports of policies are ignored. It must not lack a destination whose packets are encrypted.
#pragma once

#include "base/encrypted_paths.h"
#include "cni/rnics/path_facts.h"

namespace fairlead::cni {

// `pod` has the facts of the pod's namespace, `node` those of the node's.
EncryptedPaths encrypted_paths(const PathFacts& pod, const PathFacts& node);

}  // namespace fairlead::cni
