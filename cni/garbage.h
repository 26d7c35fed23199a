// Attachments whose pod has gone without a DEL, as after a crash of the runtime, which then never
// asks for GC either.
#pragma once

#include <cstddef>
#include <string>

#include "cni/state.h"

namespace fairlead::cni {

// The pod's network namespace is still there, or it cannot be told.
bool lives(const AttachmentState& state);

// A cgroup's path as the plugin wrote it, where the caller sees the node's hierarchy under
// `cgroup_root`.
std::string cgroup_seen_at(const std::string& path, const std::string& cgroup_root);

struct GarbageCount {
  std::size_t kept = 0;
  std::size_t collected = 0;
};

// Collects those whose network namespace is not at its path any more.
GarbageCount collect_dead(const std::string& run_dir);

// Takes from every pod what it was given, also from those that run. The plugin has written the
// paths of cgroups as the node has them; we see these under `cgroup_root`. How many there were.
std::size_t collect_all(const std::string& run_dir, const std::string& cgroup_root);

}  // namespace fairlead::cni
