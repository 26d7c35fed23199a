// How much of the process's memory limit is used by objects of the kernel. What the broker makes
// for pods (sockets, memory files) is charged to the broker's cgroup for as long as a pod keeps it,
// whether the broker has closed it or not, and the kernel tells nobody how many there are.
#pragma once

#include <cstdint>
#include <string>

namespace fairlead::cni::node {

class MemoryGauge {
 public:
  // `root`: where the cgroups are mounted, of version 1 or 2. `membership`: /proc/self/cgroup.
  static MemoryGauge find(const std::string& root, const std::string& membership);

  // From 0 to 1; 0 where there is no limit, or nothing tells.
  double kernel_share() const;

 private:
  std::string folder_;
  bool is_v1_ = false;
  std::uint64_t limit_ = 0;
};

}  // namespace fairlead::cni::node
