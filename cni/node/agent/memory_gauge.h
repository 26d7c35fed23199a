// Measures the part of the process's memory limit that kernel objects use. Objects that the broker
// creates for pods (sockets, memory files) are charged to its cgroup as long as a pod keeps them.
// This holds even after the broker has closed them. The kernel does not report their number.
#pragma once

#include <cstdint>
#include <string>

namespace fairlead::cni::node {

class MemoryGauge {
 public:
  // `root`: where the cgroups are mounted, of version 1 or 2. `membership`: /proc/self/cgroup.
  static MemoryGauge find(const std::string& root, const std::string& membership);

  // From 0 to 1; 0 without a limit or without a readable value.
  double kernel_share() const;

 private:
  std::string folder_;
  bool is_v1_ = false;
  std::uint64_t limit_ = 0;
};

}  // namespace fairlead::cni::node
