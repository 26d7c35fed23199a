#include <map>
#include <set>
#include <string>

#include "ctl/cluster/check_text.h"
#include "ctl/cluster/cluster_checks.h"

namespace fairlead::ctl {
namespace {

using json::items_of;
using json::Json;
using json::member;
using json::text_of;
using Texts = std::map<std::string, std::string, std::less<>>;

const Json& items(const ApiAnswer& answer) { return items_of(member(answer.body, "items")); }

std::string value_of(const Texts& texts, std::string_view key) {
  const auto found = texts.find(key);
  return found == texts.end() ? std::string() : found->second;
}

Texts labels_of(const Json& object) {
  return json::strings_of(member(object, "metadata", "labels"));
}

std::string name_of(const Json& object) { return text_of(member(object, "metadata", "name")); }

// --- Networks that rewrite addresses at connect(2), or the folder of CNI configurations

constexpr const char* kNetwork = "network";

// Cilium replaces kube-proxy for sockets in pods too.
bool balances_sockets_of_pods(const Texts& config) {
  const std::string replacement = value_of(config, "kube-proxy-replacement");
  const bool balances =
      value_of(config, "bpf-lb-sock") == "true" || replacement == "true" || replacement == "strict";
  return balances && value_of(config, "bpf-lb-sock-hostns-only") != "true";
}

// A redirect by programs comes before theirs. True also where it is not known.
bool has_translated_pods(const ClusterFacts& facts) {
  if (!facts.node_statuses.good()) return true;
  for (const Json& map : items(facts.node_statuses)) {
    const Json status = node_status_of(map);
    for (const Json& pod : items_of(member(status, "pods")))
      if (!text_of(member(pod, "redirect_reason")).empty()) return true;
  }
  return false;
}

std::vector<Check> judge_cilium(const ApiAnswer& answer, const std::string& name_space,
                                bool translated) {
  if (answer.absent())
    return {doubtful(kNetwork,
                     "Cilium runs in " + name_space + ", and its ConfigMap cilium-config is absent",
                     "compare Cilium's settings with docs/beside.md")};
  if (!answer.good()) return {unanswered(kNetwork, answer)};
  const Texts config = json::strings_of(member(answer.body, "data"));
  std::vector<Check> checks;
  if (value_of(config, "cni-exclusive") == "true")
    checks.push_back(bad(kNetwork,
                         "Cilium takes away other CNI configurations (cni-exclusive: \"true\")",
                         "set cni.exclusive=false in Cilium's chart: docs/beside.md"));
  if (translated && balances_sockets_of_pods(config))
    checks.push_back(doubtful(
        kNetwork,
        "Cilium replaces the address of a Service at connect(2), before a redirect by nf_tables "
        "sees it (bpf-lb-sock-hostns-only is not \"true\")",
        "set socketLB.hostNamespaceOnly=true in Cilium's chart: docs/beside.md"));
  return checks;
}

// Environment variables of the container calico-node; they take precedence over the resource.
Texts environment_of(const Json& daemonset) {
  Texts variables;
  const Json& pod = member(member(daemonset, "spec", "template"), "spec");
  for (const Json& container : items_of(member(pod, "containers")))
    if (text_of(member(container, "name")) == "calico-node")
      for (const Json& variable : items_of(member(container, "env")))
        variables[text_of(member(variable, "name"))] = text_of(member(variable, "value"));
  return variables;
}

std::vector<Check> judge_calico(const Json& daemonset, const ApiAnswer& answer, bool translated) {
  if (!answer.good() && !answer.absent()) return {unanswered(kNetwork, answer)};
  const Texts variables = environment_of(daemonset);
  const Json& spec = member(answer.body, "spec");
  const std::string by_variable = value_of(variables, "FELIX_BPFENABLED");
  const bool ebpf = by_variable.empty() ? member(spec, "bpfEnabled") == true
                                        : by_variable == "true" || by_variable == "Enabled";
  std::string balancing = value_of(variables, "FELIX_BPFCONNECTTIMELOADBALANCING");
  if (balancing.empty()) balancing = text_of(member(spec, "bpfConnectTimeLoadBalancing"));
  // The older name of this setting.
  const bool off =
      balancing == "Disabled" || member(spec, "bpfConnectTimeLoadBalancingEnabled") == false;
  if (!ebpf || off || !translated) return {};
  return {doubtful(kNetwork,
                   "Calico's eBPF data plane replaces the address of a Service at connect(2), "
                   "before a redirect by nf_tables sees it (bpfConnectTimeLoadBalancing: " +
                       (balancing.empty() ? std::string("not set") : balancing) + ")",
                   "set bpfConnectTimeLoadBalancing: Disabled and bpfHostNetworkedNATWithoutCTLB: "
                   "Enabled in the FelixConfiguration default: docs/beside.md")};
}

std::vector<Check> network_checks(const ClusterFacts& facts) {
  if (!facts.network_agents.good()) return {unanswered(kNetwork, facts.network_agents)};
  std::vector<Check> checks;
  std::string names;
  const bool translated = has_translated_pods(facts);
  std::set<std::string> judged;  // a network may have a DaemonSet for each kind of node
  for (const Json& daemonset : items(facts.network_agents)) {
    const std::string agent = value_of(labels_of(daemonset), "k8s-app");
    if (!judged.insert(agent).second) continue;
    const std::string name_space = text_of(member(daemonset, "metadata", "namespace"));
    names += (names.empty() ? "" : ", ") + agent;
    for (Check& check : agent == kCiliumAgent
                            ? judge_cilium(facts.cilium_config, name_space, translated)
                            : judge_calico(daemonset, facts.felix, translated))
      checks.push_back(std::move(check));
  }
  if (checks.empty())
    checks.push_back(good(
        kNetwork, names.empty() ? "neither Cilium nor Calico is here" : names + ", as needed"));
  return checks;
}

// --- Meshes

struct Mesh {
  const char* name;
  const char* how_to_leave;
};
constexpr Mesh kAmbient{
    "Istio's ambient mode",
    "give these pods the label istio.io/dataplane-mode=none, or fairlead.io/inject: disabled"};
constexpr Mesh kIstio{
    "Istio's sidecars",
    "give these pods the label sidecar.istio.io/inject=false, or fairlead.io/inject: disabled"};
constexpr Mesh kLinkerd{
    "Linkerd's sidecars",
    "give these pods linkerd.io/inject: disabled, or fairlead.io/inject: disabled"};

const Mesh* mesh_of(const Json& name_space) {
  const Texts labels = labels_of(name_space);
  if (value_of(labels, "istio.io/dataplane-mode") == "ambient") return &kAmbient;
  const std::string injection = value_of(labels, "istio-injection");
  if (injection == "enabled" || (injection.empty() && !value_of(labels, "istio.io/rev").empty()))
    return &kIstio;
  const std::string linkerd = value_of(
      json::strings_of(member(name_space, "metadata", "annotations")), "linkerd.io/inject");
  return linkerd == "enabled" || linkerd == "ingress" ? &kLinkerd : nullptr;
}

// How many pods with a sidecar the agents report.
std::map<std::string, std::size_t> sidecars_by_namespace(const ClusterFacts& facts) {
  std::map<std::string, std::size_t> counts;
  for (const Json& map : items(facts.node_statuses)) {
    const Json status = node_status_of(map);
    for (const Json& pod : items_of(member(status, "pods")))
      ++counts[text_of(member(pod, "namespace"))];
  }
  return counts;
}

std::vector<Check> mesh_checks(const ClusterFacts& facts) {
  constexpr const char* kName = "mesh";
  if (!facts.namespaces.good()) return {unanswered(kName, facts.namespaces)};
  const std::map<std::string, std::size_t> sidecars = sidecars_by_namespace(facts);
  std::map<const Mesh*, std::vector<std::string>> both;
  for (const Json& name_space : items(facts.namespaces)) {
    const Mesh* mesh = mesh_of(name_space);
    if (mesh == nullptr) continue;
    const std::string name = name_of(name_space);
    const auto counted = sidecars.find(name);
    if (counted != sidecars.end())
      both[mesh].push_back(name + " (pods: " + std::to_string(counted->second) + ")");
    else if (value_of(labels_of(name_space), "fairlead.io/inject") == "enabled")
      both[mesh].push_back(name + " (label fairlead.io/inject=enabled)");
  }
  std::vector<Check> checks;
  for (const Mesh* mesh : {&kAmbient, &kIstio, &kLinkerd})
    if (!both[mesh].empty())
      checks.push_back(doubtful(kName,
                                std::string("pods with Fairlead's sidecar are also subject to ") +
                                    mesh->name + ", in: " + some_of(both[mesh]),
                                std::string(mesh->how_to_leave) + ": docs/beside.md"));
  if (checks.empty()) checks.push_back(good(kName, "no namespace is in a mesh and has sidecars"));
  return checks;
}

// --- Pods in a sandbox with a network stack of its own

std::vector<Check> sandbox_checks(const ClusterFacts& facts) {
  constexpr const char* kName = "sandbox";
  std::set<std::string> nodes;
  for (const Json& node : items(facts.nodes))
    if (value_of(labels_of(node), "sandbox.gke.io/runtime") == "gvisor")
      nodes.insert(name_of(node));
  if (nodes.empty()) return {};
  std::vector<std::string> pods;
  for (const Json& map : items(facts.node_statuses)) {
    const Json status = node_status_of(map);
    if (!nodes.contains(text_of(member(status, "node")))) continue;
    for (const Json& pod : items_of(member(status, "pods")))
      pods.push_back(text_of(member(pod, "namespace")) + "/" + text_of(member(pod, "name")));
  }
  if (!pods.empty())
    return {doubtful(
        kName, "sidecars in GKE Sandbox (gVisor), which no redirect reaches: " + some_of(pods),
        "give these pods fairlead.io/inject: disabled: docs/platforms.md")};
  return {good(kName, "no sidecar on the " + std::to_string(nodes.size()) +
                          " nodes of GKE Sandbox, where none can work")};
}

// --- What the sidecar requests of a device plugin

// Names with a domain, which device plugins offer: rdma/hca_shared_devices_a.
std::set<std::string> extended_resources(const Json& amounts) {
  std::set<std::string> names;
  for (const auto& [name, amount] : json::strings_of(amounts))
    if (name.find('/') != std::string::npos) names.insert(name);
  return names;
}

std::set<std::string> requested_by_sidecar(const Json& pod) {
  std::set<std::string> names;
  for (const char* list : {"initContainers", "containers"})
    for (const Json& container : items_of(member(pod, "spec", list)))
      if (text_of(member(container, "name")) == "fairlead-proxy")
        for (const char* kind : {"limits", "requests"})
          names.merge(extended_resources(member(container, "resources", kind)));
  return names;
}

std::vector<Check> resource_checks(const ClusterFacts& facts) {
  constexpr const char* kName = "rnic_resource";
  if (!facts.dry_run.good() || !facts.nodes.good()) return {};
  std::vector<Check> checks;
  for (const std::string& wanted : requested_by_sidecar(facts.dry_run.body)) {
    std::size_t offering = 0;
    std::vector<std::string> empty;
    std::set<std::string> others;
    for (const Json& node : items(facts.nodes)) {
      const Json& allocatable = member(node, "status", "allocatable");
      others.merge(extended_resources(allocatable));
      const std::string amount = text_of(member(allocatable, wanted));
      if (amount == "0") empty.push_back(name_of(node));
      if (!amount.empty() && amount != "0") ++offering;
    }
    others.erase(wanted);
    const std::string known = others.empty()
                                  ? "nodes offer no such resource at all"
                                  : "nodes offer: " + some_of({others.begin(), others.end()});
    if (offering == 0)
      checks.push_back(bad(
          kName,
          "no node offers " + wanted + ", which each sidecar requests, so pods stay Pending; " +
              (empty.empty() ? known : "it is 0 on: " + some_of(empty)),
          empty.empty() ? "set proxy.rnicResource to a name that nodes offer, or leave it empty: "
                          "docs/beside.md"
                        : "look at the device plugin's pods on these nodes: docs/beside.md"));
    else
      checks.push_back(good(kName, wanted + " on " + std::to_string(offering) + " nodes"));
  }
  return checks;
}

}  // namespace

std::vector<Check> neighbour_checks(const ClusterFacts& facts) {
  std::vector<Check> checks;
  for (const auto& part : {network_checks, mesh_checks, sandbox_checks, resource_checks})
    for (Check& check : part(facts)) checks.push_back(std::move(check));
  return checks;
}

}  // namespace fairlead::ctl
