// Finds the cgroup of a pod, for the program that writes the SMC option.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fairlead::cni {

inline constexpr std::size_t kCgroupsLookedAtMax = 16 * 1024;

// Directory below the cgroup v2 mount that `mountinfo` (the text of /proc/self/mountinfo) shows.
// `cgroup_path` is the runtime's value: "/kubepods.slice/...", or only the name of a systemd slice,
// which implies its parents. Errors: kNotFound without a cgroup2 mount or a path, kMalformed for a
// path that leads out of the hierarchy.
Result<std::string> pod_cgroup(std::string_view cgroup_path, std::string_view mountinfo);
// On this node; kNotFound too when the directory does not exist, as on nodes with cgroup v1 alone.
Result<std::string> pod_cgroup(std::string_view cgroup_path);

// For runtimes that pass no path: directory of the pod's cgroup below `root`, a cgroup v2 mount or
// a folder that has one as "unified". The kubelet's two drivers name it /kubepods/…/pod<uid>, or a
// slice with that ending. Errors: kNotFound.
Result<std::string> find_pod_cgroup(const std::string& root, std::string_view uid);

// Whether `root` is such a mount or folder.
bool has_cgroup2(const std::string& root);

}  // namespace fairlead::cni
