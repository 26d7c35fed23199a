// Judging what a cluster answered: one line per thing that Fairlead needs, with the cause where it
// lacks it. Pure but for the certificates, which OpenSSL reads.
#pragma once

#include <chrono>
#include <string_view>
#include <vector>

#include "ctl/cluster/cluster_facts.h"
#include "ctl/reports.h"

namespace fairlead::ctl {

struct CheckScope {
  bool before = false;           // Fairlead is not to be there yet
  std::string_view own_version;  // of this program
  std::chrono::system_clock::time_point now;
};

std::vector<Check> cluster_checks(const ClusterFacts& facts, const CheckScope& scope);

// Those of the cluster and its nodes, which matter before an installation too.
std::vector<Check> platform_checks(const ClusterFacts& facts, const CheckScope& scope);
// Those of other software that has a part in the connections of pods: networks, meshes, sandboxes,
// device plugins.
std::vector<Check> neighbour_checks(const ClusterFacts& facts);
// Those of the agents' own reports: plugin, cgroup v2, RDMA mode, locked memory, NRI, redirects.
std::vector<Check> agent_checks(const ClusterFacts& facts);
// Those of the policies that narrow what the accounts of the chart may do.
std::vector<Check> policy_checks(const ClusterFacts& facts);
// Those of the injection: webhook, certificates, endpoints, a pod for a try.
std::vector<Check> injection_checks(const ClusterFacts& facts, const CheckScope& scope);

}  // namespace fairlead::ctl
