#include "ctl/cluster/cluster_facts.h"

#include "base/kubernetes_names.h"
#include "event/http/http_status.h"

namespace fairlead::ctl {
namespace {

using json::items_of;
using json::Json;
using json::member;
using json::text_of;

constexpr json::Limits kStatusLimits{1 << 20, 16, 200'000};

std::string chart_list(const char* path) {
  return std::string(path) + "?labelSelector=" + kChartSelector;
}

std::string namespace_of(const ApiAnswer& list) {
  for (const Json& item : items_of(member(list.body, "items")))
    return text_of(member(item, "metadata", "namespace"));
  return {};
}

// OpenShift gives each namespace a range of user ids, and refuses others.
Json try_pod(const std::string& name_space, const char* inject, bool openshift) {
  Json pod = {
      {"apiVersion", "v1"},
      {"kind", "Pod"},
      {"metadata",
       {{"generateName", "fairleadctl-check-"},
        {"namespace", name_space},
        {"annotations", {{std::string(kubernetes::kAnnotationPrefix) + "inject", inject}}}}},
      {"spec",
       {{"containers",
         {{{"name", "check"},
           {"image", "check"},
           {"resources",
            {{"requests", {{"cpu", "1m"}, {"memory", "1Mi"}}},
             {"limits", {{"cpu", "1m"}, {"memory", "1Mi"}}}}},
           {"securityContext",
            {{"allowPrivilegeEscalation", false},
             {"capabilities", {{"drop", {"ALL"}}}},
             {"runAsNonRoot", true},
             {"runAsUser", 65534},
             {"seccompProfile", {{"type", "RuntimeDefault"}}}}}}}}}}};
  if (openshift) pod["spec"]["containers"][0]["securityContext"].erase("runAsUser");
  return pod;
}

void ask_networks(const ClusterClient& client, ClusterFacts& facts) {
  facts.network_agents =
      client.list(std::string("/apis/apps/v1/daemonsets?labelSelector=k8s-app%20in%20(") +
                  kCiliumAgent + "%2C" + kCalicoAgent + ")");
  for (const Json& daemonset : items_of(member(facts.network_agents.body, "items"))) {
    const auto labels = json::strings_of(member(daemonset, "metadata", "labels"));
    const auto agent = labels.find("k8s-app");
    if (agent == labels.end()) continue;
    if (agent->second == kCiliumAgent)
      facts.cilium_config =
          client.get("/api/v1/namespaces/" + text_of(member(daemonset, "metadata", "namespace")) +
                     "/configmaps/cilium-config");
    if (agent->second != kCalicoAgent) continue;
    // Calico keeps its resources under the first group, or serves the second one.
    facts.felix = client.get("/apis/crd.projectcalico.org/v1/felixconfigurations/default");
    if (facts.felix.absent())
      facts.felix = client.get("/apis/projectcalico.org/v3/felixconfigurations/default");
  }
}

// The Service of the first webhook: namespace and name.
std::pair<std::string, std::string> service_of(const ApiAnswer& webhooks) {
  for (const Json& configuration : items_of(member(webhooks.body, "items")))
    for (const Json& webhook : items_of(member(configuration, "webhooks"))) {
      const Json& service = member(member(webhook, "clientConfig"), "service");
      return {text_of(member(service, "namespace")), text_of(member(service, "name"))};
    }
  return {};
}

}  // namespace

ClusterFacts ask_cluster(const ClusterClient& client, const std::string& expected,
                         const std::string& pod_namespace, bool before) {
  ClusterFacts facts;
  facts.release_namespace = expected;
  facts.pod_namespace = pod_namespace;
  facts.version = client.get("/version");
  // Without connection or credentials every other answer would be the same.
  if (facts.version.status == 0 || facts.version.status == http_status::kUnauthorized) return facts;
  facts.nodes = client.list("/api/v1/nodes");
  facts.namespaces = client.list("/api/v1/namespaces");
  facts.openshift = client.get("/apis/security.openshift.io").good();
  ask_networks(client, facts);
  if (!before) {
    facts.daemonsets = client.list(chart_list("/apis/apps/v1/daemonsets"));
    facts.deployments = client.list(chart_list("/apis/apps/v1/deployments"));
    facts.webhooks = client.list(
        chart_list("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"));
    facts.policies =
        client.list(chart_list("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"));
    facts.narrowing = client.list(
        chart_list("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"));
    facts.bindings = client.list(
        chart_list("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"));
    for (const ApiAnswer* list : {&facts.daemonsets, &facts.deployments})
      if (const std::string found = namespace_of(*list); !found.empty())
        facts.release_namespace = found;
  }
  const std::string home = "/api/v1/namespaces/" + facts.release_namespace;
  facts.name_space = client.get(home);
  if (before) return facts;
  facts.node_statuses = ask_node_statuses(client, facts.release_namespace);
  const auto [name_space, service] = service_of(facts.webhooks);
  if (service.empty()) return facts;
  facts.endpoints =
      client.list("/apis/discovery.k8s.io/v1/namespaces/" + name_space +
                  "/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D" + service);
  const std::string pods = "/api/v1/namespaces/" + pod_namespace + "/pods?dryRun=All";
  facts.dry_run = client.post(pods, try_pod(pod_namespace, "enabled", facts.openshift));
  if (facts.dry_run.refused())
    facts.dry_run_plain = client.post(pods, try_pod(pod_namespace, "disabled", facts.openshift));
  return facts;
}

ApiAnswer ask_node_statuses(const ClusterClient& client, const std::string& release_namespace) {
  const ApiAnswer namespaces =
      client.list(std::string("/api/v1/namespaces?labelSelector=") + kReportNamespaceSelector);
  std::string place = release_namespace;
  for (const Json& one : items_of(member(namespaces.body, "items"))) {
    const auto annotations = json::strings_of(member(one, "metadata", "annotations"));
    const auto release = annotations.find(kReleaseAnnotation);
    if (release != annotations.end() && release->second.starts_with(release_namespace + "/"))
      place = text_of(member(one, "metadata", "name"));
  }
  return client.list("/api/v1/namespaces/" + place +
                     "/configmaps?labelSelector=" + kNodeStatusSelector);
}

Json node_status_of(const Json& config_map) {
  const std::string text = text_of(member(member(config_map, "data"), kNodeStatusKey));
  auto parsed = json::parse(text, kStatusLimits);
  return parsed ? std::move(*parsed) : Json();
}

}  // namespace fairlead::ctl
