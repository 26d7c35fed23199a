// What the sidecars of a node have answered, kept from one report to the next. A node has more
// sidecars than one report can wait for if some of them stall. Pure. For one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cni/netns.h"
#include "cni/node/sidecar_counts.h"
#include "cni/node/status_report.h"

namespace fairlead::cni::node {

class SidecarAnswers {
 public:
  // Begins a report about these pods, and forgets others. Returns the indices of `pods` in the
  // order to ask: sidecars that answered last time or are new, then those that did not, and of each
  // kind the one that was asked longest ago. So a pod that stalls delays only pods that stall.
  std::vector<std::size_t> order(const std::vector<PodFinding>& pods);

  // The answer of a sidecar in this report; nothing: it did not answer.
  void record(const NetnsIdentity& pod, std::optional<SidecarCounts> counts);

  // With the last answer, of this report or an earlier one.
  PodLine line(PodFinding pod) const;

 private:
  struct Asked {
    NetnsIdentity pod;
    std::uint64_t at = 0;  // the number of the question; 0: never
    bool answers = false;
    SidecarCounts counts;
  };
  const Asked* find(const NetnsIdentity& pod) const;

  std::vector<Asked> asked_;  // as the pods of order()
  std::uint64_t questions_ = 0;
};

}  // namespace fairlead::cni::node
