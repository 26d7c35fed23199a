// Report of fairlead-node about its node: a ConfigMap in its own namespace, which `fairleadctl
// check` and `status` read (docs/adr/0029). Creating the text is pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cni/json_text.h"
#include "cni/node/inventory.h"
#include "cni/node/pod_check.h"
#include "cni/node/sidecar_counts.h"

namespace fairlead::cni::node {

// Size of a report; further pods are counted, not listed. The API server accepts 1 MiB.
inline constexpr std::size_t kReportBytesMax = 512 << 10;

struct PodLine {
  PodFinding pod;
  bool asked = false;  // at least once; one report cannot query all if some stall
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

// Place and owner of the ConfigMap; Kubernetes deletes it with the owner.
struct ReportPlace {
  std::string name_space, pod_name, pod_uid;  // of fairlead-node itself
  bool is_known() const { return !name_space.empty() && !pod_name.empty() && !pod_uid.empty(); }
};

std::string status_text(const StatusFacts& facts);

// Path and body of a server-side apply.
std::string report_path(const ReportPlace& place, const std::string& node);
std::string report_body(const ReportPlace& place, const std::string& node,
                        const std::string& status);

}  // namespace fairlead::cni::node
