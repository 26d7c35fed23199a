// Report of fairlead-node about its node: a ConfigMap in the namespace for reports, which
// `fairleadctl check` and `status` read (docs/adr/0029). Creating the text is pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cni/node/agent/inventory.h"
#include "cni/node/cluster/token_claims.h"
#include "cni/node/pods/pod_check.h"
#include "cni/node/pods/sidecar_counts.h"
#include "cni/plugin/json_text.h"

namespace fairlead::cni::node {

// Size of a report; further pods are counted, not listed. The API server accepts 1 MiB.
inline constexpr std::size_t kReportBytesMax = 512 << 10;

struct PodLine {
  PodFinding pod;
  bool asked = false;  // at least once; one report cannot query all pods if some stall
  bool answers = false;
  SidecarCounts counts;
};

struct StatusFacts {
  std::string node, version;
  std::int64_t written_seconds = 0;  // since 1970
  bool installed = false;
  bool cgroup2 = false;
  std::string nri;  // "connected", "not_connected" or "off"
  Inventory inventory;
  std::size_t rnics_missing = 0;
  std::vector<PodLine> pods;
};

std::string status_text(const StatusFacts& facts);

// Paths of the reports of a namespace and of one of them, and its body. The node owns the
// ConfigMap, so Kubernetes deletes it with the node. Without the node's uid it has no owner.
std::string reports_path(const std::string& name_space);
std::string report_path(const std::string& name_space, const std::string& node);
std::string report_body(const std::string& name_space, const NodeIdentity& node,
                        const std::string& status);

}  // namespace fairlead::cni::node
