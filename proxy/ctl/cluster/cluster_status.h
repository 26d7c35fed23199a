// What the agents of a cluster report, by node, by namespace and by pod. Reading and printing are
// pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ctl/cluster/cluster_facts.h"
#include "ctl/json_value.h"

namespace fairlead::ctl {

// A report that is older counts as silence; agents write one each minute.
inline constexpr std::chrono::minutes kReportAgeMax{5};

struct ConnectionCounts {
  // Since the sidecars started. brief: they ended before they had earned SMC-R.
  std::uint64_t smcr = 0, tcp = 0, brief = 0;
  std::uint64_t links = 0;                       // active now
  std::map<std::string, std::uint64_t> reasons;  // of those over TCP
  void add(const ConnectionCounts& other);
};

struct PodStatus {
  std::string name_space, name, node;
  std::string redirect, option_program;  // good, missing, unknown
  bool asked = true;                     // the agent has asked its sidecar so far
  bool answers = false;                  // its sidecar told the agent its counts
  ConnectionCounts connections;
};

struct NodeStatus {
  std::string name, version, rdma_mode, nri;
  bool installed = false;
  bool silent = false;  // its report is old
  std::uint64_t rnics = 0, rnics_missing = 0;
  std::size_t pods = 0;
  ConnectionCounts connections;
};

struct ClusterStatus {
  std::vector<NodeStatus> nodes;  // by name
  std::vector<PodStatus> pods;    // by namespace and name
  std::map<std::string, ConnectionCounts> namespaces;
  std::vector<std::string> troubles;  // sentences
};

// `name_space`: pods of this one alone; empty: all. What is no report is left out.
ClusterStatus read_cluster_status(const ApiAnswer& maps, const std::string& name_space,
                                  std::chrono::system_clock::time_point now);

std::string status_text(const ClusterStatus& status);
Json status_json(const ClusterStatus& status);

}  // namespace fairlead::ctl
