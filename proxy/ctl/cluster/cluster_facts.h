// What `fairleadctl check` and `status` ask a cluster, and the answers as they came.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ctl/cluster/cluster_client.h"

namespace fairlead::ctl {

// Marks every object of the chart.
inline constexpr const char* kChartSelector = "app.kubernetes.io%2Fname%3Dfairlead";
// Marks the ConfigMap in which fairlead-node tells what its node has (docs/adr/0029).
inline constexpr const char* kNodeStatusSelector = "app.kubernetes.io%2Fcomponent%3Dnode-status";
inline constexpr const char* kNodeStatusKey = "status.json";
// Marks the Namespace that has these ConfigMaps, and names the release that it belongs to, as
// NAMESPACE/RELEASE.
inline constexpr const char* kReportNamespaceSelector =
    "app.kubernetes.io%2Fcomponent%3Dnode-reports";
inline constexpr const char* kReleaseAnnotation = "fairlead.io/release";
// On Deployments and DaemonSets of the chart: the policies that narrow rights, as NAME=SHA256
// between commas. The digest is that of the policy's spec as JSON with sorted keys and without
// blanks.
inline constexpr const char* kPoliciesAnnotation = "fairlead.io/policies";
// Values of the label k8s-app, by which the DaemonSets of these networks are found.
inline constexpr const char* kCiliumAgent = "cilium";
inline constexpr const char* kCalicoAgent = "calico-node";

struct ClusterFacts {
  std::string context, server;
  ApiAnswer version;
  ApiAnswer nodes;
  ApiAnswer namespaces;           // all
  ApiAnswer network_agents;       // DaemonSets of Cilium and Calico
  ApiAnswer cilium_config;        // ConfigMap cilium-config; only with Cilium
  ApiAnswer felix;                // FelixConfiguration default; only with Calico
  bool openshift = false;         // the cluster has security context constraints
  ApiAnswer daemonsets;           // of the chart, in all namespaces
  ApiAnswer deployments;          // the same
  ApiAnswer webhooks;             // MutatingWebhookConfigurations of the chart
  ApiAnswer policies;             // MutatingAdmissionPolicies of the chart; absent before 1.36
  ApiAnswer narrowing;            // ValidatingAdmissionPolicies of the chart
  ApiAnswer bindings;             // of these
  std::string release_namespace;  // of what was found; else what the caller expects
  ApiAnswer name_space;           // that one
  ApiAnswer endpoints;            // EndpointSlices of the injector's Service
  std::string pod_namespace;      // of the pods of the dry runs
  ApiAnswer dry_run;              // a pod that opts in, created for a try; only with a webhook
  ApiAnswer dry_run_plain;        // the same pod without a sidecar; only where the first is refused
  ApiAnswer node_statuses;        // ConfigMaps
};

// Of the namespace where the chart's objects are, or `expected` where there are none.
// `pod_namespace`: where the pod of the dry run would be. With `before` nothing of the chart is
// asked for.
ClusterFacts ask_cluster(const ClusterClient& client, const std::string& expected,
                         const std::string& pod_namespace, bool before);

// ConfigMaps of the nodes of a release: those in the Namespace for its reports; without one, as
// before that Namespace existed, those in the namespace of the release.
ApiAnswer ask_node_statuses(const ClusterClient& client, const std::string& release_namespace);

// What an agent wrote; null where it is none.
json::Json node_status_of(const json::Json& config_map);

}  // namespace fairlead::ctl
