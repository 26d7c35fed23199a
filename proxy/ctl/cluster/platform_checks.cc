#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <string>

#include "ctl/cluster/check_text.h"
#include "ctl/cluster/cluster_checks.h"

namespace fairlead::ctl {
namespace {

using json::items_of;
using json::Json;
using json::member;
using json::text_of;

struct Version {
  std::uint64_t number = 0;  // 0: the text was none
  explicit operator bool() const { return number != 0; }
  bool operator<(const Version& other) const { return number < other.number; }
};

constexpr Version version_of(std::uint32_t major, std::uint32_t minor) {
  return {std::uint64_t{major} << 32 | minor};
}

constexpr Version kKubernetesMin = version_of(1, 30);  // as in the chart's kubeVersion
constexpr Version kKernelMin = version_of(5, 10);      // a sockops program may write TCP options
constexpr Version kContainerdAnnotations = version_of(1, 5);
constexpr Version kContainerdNri = version_of(2, 0);
constexpr Version kCrioAnnotations = version_of(1, 29);
constexpr Version kCrioNri = version_of(1, 30);

std::string to_string(Version version) {
  return std::to_string(version.number >> 32) + "." + std::to_string(version.number & UINT32_MAX);
}

// The first two numbers of "v1.34.1", "5.15.0-91-generic", "1.7.2".
Version parse_version(std::string_view text) {
  if (text.starts_with('v')) text.remove_prefix(1);
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '.') return {};
  const auto second = std::from_chars(first.ptr + 1, end, minor);
  if (second.ec != std::errc{}) return {};
  return version_of(major, minor);
}

Check check_version(const ClusterFacts& facts) {
  constexpr const char* kName = "kubernetes";
  if (!facts.version.good()) return unanswered(kName, facts.version);
  const std::string text = text_of(member(facts.version.body, "gitVersion"));
  const auto version = parse_version(text);
  if (!version) return bad(kName, "\"" + text + "\" is no version", "is this an API server?");
  if (version < kKubernetesMin)
    return bad(kName, text + " is older than " + to_string(kKubernetesMin),
               "upgrade the cluster; sidecars need its native sidecar containers");
  return good(kName, text);
}

struct NodeGroups {
  std::size_t count = 0;
  std::vector<std::string> not_linux, other_processor, old_kernel, no_annotations, no_nri,
      unknown_runtime, not_ready;
};

void judge_runtime(const std::string& name, const std::string& runtime, NodeGroups& groups) {
  const std::size_t scheme = runtime.find("://");
  const std::string kind = runtime.substr(0, scheme);
  const auto version =
      scheme == std::string::npos ? Version{} : parse_version(runtime.substr(scheme + 3));
  const std::string shown = name + " (" + runtime + ")";
  if (!version || (kind != "containerd" && kind != "cri-o")) {
    groups.unknown_runtime.push_back(shown);
    return;
  }
  const bool is_containerd = kind == "containerd";
  if (version < (is_containerd ? kContainerdAnnotations : kCrioAnnotations))
    groups.no_annotations.push_back(shown);
  if (version < (is_containerd ? kContainerdNri : kCrioNri)) groups.no_nri.push_back(shown);
}

NodeGroups group_nodes(const Json& nodes) {
  NodeGroups groups;
  for (const Json& node : items_of(nodes)) {
    const std::string name = text_of(member(node, "metadata", "name"));
    const Json& info = member(node, "status", "nodeInfo");
    ++groups.count;
    if (text_of(member(info, "operatingSystem")) != "linux") {
      groups.not_linux.push_back(name);
      continue;
    }
    const std::string processor = text_of(member(info, "architecture"));
    if (processor != "amd64" && processor != "arm64")
      groups.other_processor.push_back(name + " (" + processor + ")");
    const std::string kernel = text_of(member(info, "kernelVersion"));
    const auto version = parse_version(kernel);
    if (!version || version < kKernelMin) groups.old_kernel.push_back(name + " (" + kernel + ")");
    judge_runtime(name, text_of(member(info, "containerRuntimeVersion")), groups);
    for (const Json& condition : items_of(member(node, "status", "conditions")))
      if (text_of(member(condition, "type")) == "Ready" &&
          text_of(member(condition, "status")) != "True")
        groups.not_ready.push_back(name);
  }
  return groups;
}

Check check_kernel(const NodeGroups& groups) {
  constexpr const char* kName = "kernel";
  if (!groups.old_kernel.empty())
    return bad(kName, "older than " + to_string(kKernelMin) + ": " + some_of(groups.old_kernel),
               "pods of these nodes have TCP only; upgrade their kernels");
  return good(kName, to_string(kKernelMin) + " or later on all Linux nodes");
}

Check check_runtime(const NodeGroups& groups) {
  constexpr const char* kName = "runtime";
  if (!groups.unknown_runtime.empty())
    return doubtful(kName, "not known to work: " + some_of(groups.unknown_runtime),
                    "containerd and CRI-O are supported: docs/compatibility.md");
  if (!groups.no_annotations.empty())
    return doubtful(kName,
                    "passes no annotations to CNI plugins: " + some_of(groups.no_annotations),
                    "leave node.repair on, so that fairlead-node asks the API server instead");
  if (!groups.no_nri.empty())
    return doubtful(kName, "NRI is off by default: " + some_of(groups.no_nri),
                    "for RNICs, switch NRI on there or use a device plugin: docs/rdma-nodes.md");
  return good(kName, "passes annotations and has NRI on all Linux nodes");
}

std::vector<Check> check_nodes(const ClusterFacts& facts) {
  if (!facts.nodes.good()) return {unanswered("nodes", facts.nodes)};
  const NodeGroups groups = group_nodes(member(facts.nodes.body, "items"));
  const std::size_t linux_nodes = groups.count - groups.not_linux.size();
  std::vector<Check> checks;
  if (linux_nodes == 0)
    return {bad("nodes", "none of " + std::to_string(groups.count) + " runs Linux",
                "Fairlead runs on Linux nodes")};
  if (!groups.not_ready.empty())
    checks.push_back(doubtful("nodes", "not ready: " + some_of(groups.not_ready),
                              "kubectl describe node names the cause"));
  else if (!groups.other_processor.empty())
    checks.push_back(doubtful("nodes", "no image for: " + some_of(groups.other_processor),
                              "keep the DaemonSet off them by nodePools[].nodeSelector"));
  else
    checks.push_back(good("nodes", std::to_string(linux_nodes) + " with Linux"));
  checks.push_back(check_kernel(groups));
  checks.push_back(check_runtime(groups));
  return checks;
}

// fairlead-node mounts folders of its host, which only the level "privileged" allows.
Check check_pod_security(const ClusterFacts& facts) {
  constexpr const char* kName = "pod_security";
  constexpr const char* kLabel = "pod-security.kubernetes.io/enforce";
  const std::string& home = facts.release_namespace;
  if (facts.name_space.absent())
    return good(kName, "namespace " + home + " is not there yet; label it " + kLabel +
                           "=privileged where the cluster's default is stricter");
  if (!facts.name_space.good()) return unanswered(kName, facts.name_space);
  const auto labels = json::strings_of(member(facts.name_space.body, "metadata", "labels"));
  const auto level = labels.find(kLabel);
  if (level == labels.end())
    return good(kName, "namespace " + home + " has no " + kLabel + "; the cluster's default holds");
  if (level->second != "privileged")
    return bad(kName, "namespace " + home + " enforces \"" + level->second + "\"",
               "kubectl label namespace " + home + " --overwrite " + kLabel + "=privileged");
  return good(kName, "namespace " + home + " enforces \"privileged\"");
}

// Security context constraints decide on the user id 2201 of sidecars, and on the agent's folders.
Check check_openshift(const ClusterFacts& facts) {
  return good("openshift", "accounts need an SCC: privileged for fairlead-node in " +
                               facts.release_namespace +
                               ", nonroot-v2 for injected pods: docs/platforms.md");
}

}  // namespace

std::vector<Check> platform_checks(const ClusterFacts& facts, const CheckScope& /*scope*/) {
  std::vector<Check> checks = {check_version(facts)};
  for (Check& check : check_nodes(facts)) checks.push_back(std::move(check));
  checks.push_back(check_pod_security(facts));
  if (facts.openshift) checks.push_back(check_openshift(facts));
  return checks;
}

}  // namespace fairlead::ctl
