// Answers of a node's sidecars, kept from one report to the next. If some sidecars stall, one
// report cannot wait for all. Pure. For one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cni/node/pods/sidecar_counts.h"
#include "cni/node/reports/status_report.h"
#include "cni/redirect/netns.h"

namespace fairlead::cni::node {

class SidecarAnswers {
 public:
  // Begins a report about these pods, and forgets others. Returns the indices of `pods` in the
  // order of the queries: first sidecars that answered last time or are new, then the others; in
  // both groups the one that was queried longest ago comes first. So a pod that stalls delays only
  // pods that stall.
  std::vector<std::size_t> order(const std::vector<PodFinding>& pods);

  // Records a sidecar's answer for this report; empty if it did not answer.
  void record(const NetnsIdentity& pod, std::optional<SidecarCounts> counts);

  // The pod with its latest answer, of this report or an earlier one.
  PodLine line(PodFinding pod) const;

 private:
  struct Asked {
    NetnsIdentity pod;
    std::uint64_t at = 0;  // the number of the query; 0: never
    bool answers = false;
    SidecarCounts counts;
  };
  const Asked* find(const NetnsIdentity& pod) const;

  std::vector<Asked> asked_;  // in the order of the pods of order()
  std::uint64_t questions_ = 0;
};

}  // namespace fairlead::cni::node
