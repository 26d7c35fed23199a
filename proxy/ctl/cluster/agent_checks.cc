#include <string>

#include "ctl/cluster/check_text.h"
#include "ctl/cluster/cluster_checks.h"

namespace fairlead::ctl {
namespace {

using json::items_of;
using json::Json;
using json::member;
using json::text_of;

constexpr std::uint64_t kMemlockEnough = 64ULL << 20;

std::uint64_t count_of(const Json& object, const char* name) {
  const Json& value = member(object, name);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

struct AgentGroups {
  std::size_t count = 0;
  std::vector<std::string> not_installed, no_cgroup2, exclusive, small_memlock, no_nri, lack_rnics,
      lose_redirects, translated, lose_programs;
};

void judge_agent(const Json& status, AgentGroups& groups) {
  const std::string node = text_of(member(status, "node"));
  ++groups.count;
  if (member(status, "installed") != true) groups.not_installed.push_back(node);
  if (member(status, "cgroup2") != true) groups.no_cgroup2.push_back(node);
  if (text_of(member(status, "rdma_mode")) == "exclusive") groups.exclusive.push_back(node);
  const Json& rnics = member(status, "rnics");
  const bool has_rnics = count_of(rnics, "active") + count_of(rnics, "inactive") > 0;
  const std::string nri = text_of(member(status, "nri"));
  if (nri == "not_connected") groups.no_nri.push_back(node);
  const Json& memlock = member(status, "memlock_bytes");
  if (has_rnics && nri != "connected" && memlock.is_number_unsigned() &&
      memlock.get<std::uint64_t>() < kMemlockEnough)
    groups.small_memlock.push_back(node + " (" +
                                   std::to_string(memlock.get<std::uint64_t>() >> 10) + " KiB)");
  if (const auto missing = count_of(rnics, "missing"); missing != 0)
    groups.lack_rnics.push_back(node + " (" + std::to_string(missing) + ")");
  for (const Json& pod : items_of(member(status, "pods"))) {
    const std::string name = text_of(member(pod, "namespace")) + "/" + text_of(member(pod, "name"));
    if (text_of(member(pod, "redirect")) == "missing") groups.lose_redirects.push_back(name);
    const std::string reason = text_of(member(pod, "redirect_reason"));
    if (!reason.empty()) groups.translated.push_back(name + " (" + reason + ")");
    if (text_of(member(pod, "option_program")) == "missing") groups.lose_programs.push_back(name);
  }
}

Check check_group(const char* name, const std::vector<std::string>& group, const char* wrong,
                  const char* fix, const char* right, Check::Status status) {
  if (group.empty()) return good(name, right);
  return {name, status, std::string(wrong) + some_of(group), fix};
}

}  // namespace

std::vector<Check> agent_checks(const ClusterFacts& facts) {
  using json::Json;  // not the one of reports.h
  if (!facts.node_statuses.good()) return {unanswered("agents", facts.node_statuses)};
  AgentGroups groups;
  for (const Json& map : items_of(member(facts.node_statuses.body, "items")))
    if (const Json status = node_status_of(map); status.is_object()) judge_agent(status, groups);
  if (groups.count == 0)
    return {doubtful("agents", "no agent has written a report in " + facts.release_namespace,
                     "is node.status on, and does fairlead-node run? Its log has "
                     "event=status_not_written where it may not")};
  using S = Check::Status;
  return {
      good("agents", std::to_string(groups.count) + " nodes report"),
      check_group("cni_chain", groups.not_installed,
                  "the plugin is not in the runtime's network configuration on: ",
                  "docs/alerts.md, FairleadNodeInstallNotReady", "the plugin is installed",
                  S::kFail),
      check_group("cgroup_v2", groups.no_cgroup2, "there is no cgroup v2 hierarchy on: ",
                  "boot these nodes with systemd.unified_cgroup_hierarchy=1; until then their pods "
                  "have TCP",
                  "on all nodes", S::kFail),
      check_group("rdma_mode", groups.exclusive,
                  "RNICs belong to network namespaces (exclusive mode) on: ",
                  "rdma system set netns shared, at boot; or give pods a VF: docs/rdma-nodes.md",
                  "shared, or without RNICs", S::kWarn),
      check_group("nri", groups.no_nri, "fairlead-node is not connected to the runtime's NRI on: ",
                  "switch NRI on in the container runtime, or set node.rnicAccess and "
                  "node.repair: docs/platforms.md",
                  "connected, or not asked for", S::kWarn),
      check_group("memlock", groups.small_memlock, "the limit of locked memory is small on: ",
                  "raise LimitMEMLOCK of the container runtime, or use NRI: docs/rdma-nodes.md",
                  "enough, or set by fairlead-node", S::kWarn),
      check_group("rnics", groups.lack_rnics, "ports that the pool names are missing on: ",
                  "docs/alerts.md, FairleadRnicMissing", "all that the pools name", S::kWarn),
      check_group("redirects", groups.lose_redirects,
                  "pods run without their redirect: ", "docs/alerts.md, FairleadRedirectMissing",
                  "every sidecar has its redirect", S::kFail),
      check_group("translation", groups.translated,
                  "pods are redirected by address translation, which tracks their connections: ",
                  "docs/cni.md, \"Redirect\", says what programs need; pods that start later have "
                  "them",
                  "no redirect translates addresses", S::kWarn),
      check_group("option_program", groups.lose_programs, "pods cannot send the SMC option: ",
                  "docs/alerts.md, FairleadOptionProgramMissing", "every sidecar has its program",
                  S::kFail),
  };
}

}  // namespace fairlead::ctl
