// Which destinations of a pod lie behind encryption below TCP: by IPsec policies and by routes to
// links that encrypt, in the pod's network namespace and in that of its node. Pure.
//
// A destination may be told although its packets are not encrypted, because priorities, marks and
// ports of policies are not looked at. The reverse must not happen.
#pragma once

#include "base/encrypted_paths.h"
#include "cni/path_facts.h"

namespace fairlead::cni {

// `pod` has the facts of the pod's namespace, `node` those of the node's.
EncryptedPaths encrypted_paths(const PathFacts& pod, const PathFacts& node);

}  // namespace fairlead::cni
