// Closes descriptors of memory files that pods had. The last close(2) of a file frees its pages,
// which takes long if the pod has filled it. Therefore a separate thread closes them, and the pod
// is charged for the time.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/linux/handle.h"
#include "base/linux/task_thread.h"
#include "base/time.h"

namespace fairlead::cni::node {

class BrokerCloser {
 public:
  BrokerCloser();
  // Closes the descriptors on this thread only if no other thread can be started. The number that
  // waits is limited by what the process can have open.
  void close(const std::string& pod, std::vector<FileDescriptor> descriptors);
  // Processor time used for closing since the last call, one entry per call of close().
  std::vector<std::pair<std::string, Duration>> take_spent();

 private:
  TaskThread thread_;
};

}  // namespace fairlead::cni::node
