// Common part of Events about the pods of a node: which pods come first if a report has no room for
// all, and which are forgotten. Pure. For one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cni/node/reports/status_report.h"

namespace fairlead::cni::node {

class PodTurns {
 public:
  // Calls `visit(line)` for each pod, until it says that the report is full. The next call begins
  // with the pod after that one.
  template <typename Visit>
  void take(const std::vector<PodLine>& pods, Visit visit) {
    const std::size_t first = first_;
    for (std::size_t turn = 0; turn < pods.size(); ++turn) {
      const std::size_t place = (first + turn) % pods.size();
      if (!visit(pods[place])) continue;
      first_ = place + 1;
      return;
    }
  }

 private:
  std::size_t first_ = 0;  // place of the pod with the next turn
};

// Removes the entries of other pods. `made`: a map by UID of the pod.
template <typename Made>
void forget_others(Made& made, const std::vector<PodLine>& pods) {
  std::erase_if(made, [&](const auto& one) {
    return std::none_of(pods.begin(), pods.end(),
                        [&](const PodLine& line) { return line.pod.uid == one.first; });
  });
}

}  // namespace fairlead::cni::node
