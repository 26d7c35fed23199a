// Closes descriptors of memory that pods have had. Who closes a file last frees its pages, and a
// pod may have filled it: so an errand thread does it, and the pod pays for the time.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/errand_thread.h"
#include "base/handle.h"
#include "base/time.h"

namespace fairlead::cni::node {

inline constexpr std::size_t kDescriptorsClosingMax = 8192;

class BrokerCloser {
 public:
  BrokerCloser();
  // Closes them here when there are more than kDescriptorsClosingMax.
  void close(const std::string& pod, std::vector<FileDescriptor> descriptors);
  // Processor time that closing has taken since, for each call of close().
  std::vector<std::pair<std::string, Duration>> take_spent();

 private:
  std::size_t closing_ = 0;
  ErrandThread thread_;
};

}  // namespace fairlead::cni::node
