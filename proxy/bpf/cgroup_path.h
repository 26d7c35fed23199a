// Where the directory of this process's cgroup is: the part of finding it that needs no system call
// but reading two files. Sources: cgroups(7), proc(5).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fairlead::bpf {

// Directory of the cgroup v2 that a process is in. `self_cgroup` is the text of /proc/self/cgroup,
// `mountinfo` that of /proc/self/mountinfo. Copes with hierarchies mounted beside version 1
// (hybrid), with mounts that show only a part of the hierarchy (a container without cgroup
// namespace), and with escaped blanks in paths. Errors: kNotFound without a cgroup2 mount,
// kUnsupported when the cgroup lies outside of what is mounted.
Result<std::string> own_cgroup_path(std::string_view self_cgroup, std::string_view mountinfo);

// The same for the calling process.
Result<std::string> own_cgroup_path();

// The text of /proc/self/mountinfo.
Result<std::string> read_mountinfo();

}  // namespace fairlead::bpf
