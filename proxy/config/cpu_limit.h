// How many workers suit the CPUs that this process may use. std::thread::hardware_concurrency()
// knows nothing of the quota, and a proxy with 64 workers in a container of half a CPU is throttled
// most of the time.
#pragma once

#include <string>

namespace fairlead::config {

// The quota of its control groups, or what it may be scheduled on, whichever is less. Without a
// quota half of the latter, rounded up, because applications use the same CPUs. At least 1. Reads
// /proc and the cgroup file systems; whatever cannot be read is taken as no limit.
unsigned default_workers();
// The same of known numbers; `quota` 0: none.
unsigned default_workers(unsigned quota, unsigned cpus);

// The quota part alone, a fraction rounded up, 0 when there is none: the least of all quotas
// between the process' own group and the root of the mount, of cgroup v2 and of the v1 cpu
// controller. `root` is put before every path, so that a test can bring its own /proc and /sys.
unsigned cpu_quota(const std::string& root);

}  // namespace fairlead::config
