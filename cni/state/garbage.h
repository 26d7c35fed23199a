// Collection of attachments whose pod ended without a DEL. A runtime that crashed calls neither DEL
// nor GC for them.
#pragma once

#include <cstddef>
#include <string>

#include "cni/state/state.h"

namespace fairlead::cni {

// True if the pod's network namespace exists, or if that cannot be determined.
bool lives(const AttachmentState& state);

// Translates the path of a cgroup that the plugin wrote, for a caller that sees the node's
// hierarchy under `cgroup_root`.
std::string cgroup_seen_at(const std::string& path, const std::string& cgroup_root);

struct GarbageCount {
  std::size_t kept = 0;
  std::size_t collected = 0;
};

// Collects attachments whose network namespace is no longer at its path.
GarbageCount collect_dead(const std::string& run_dir);

// Undoes the setup of every pod, also of running ones. The plugin wrote paths of cgroups as seen on
// the node; this process sees them under `cgroup_root`. Returns the number of attachments.
std::size_t collect_all(const std::string& run_dir, const std::string& cgroup_root);

}  // namespace fairlead::cni
