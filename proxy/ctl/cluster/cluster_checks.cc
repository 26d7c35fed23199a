#include "ctl/cluster/cluster_checks.h"

#include <set>
#include <string>

#include "ctl/cluster/check_text.h"
#include "event/http/http_status.h"

namespace fairlead::ctl {
namespace {

using json::items_of;
using json::Json;
using json::member;
using json::text_of;

constexpr const char* kVersionLabel = "app.kubernetes.io/version";
constexpr const char* kComponentLabel = "app.kubernetes.io/component";

std::uint64_t number_of(const Json& object, const char* first, const char* second) {
  const Json& value = member(object, first, second);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

std::string label_of(const Json& object, const char* name) {
  const auto labels = json::strings_of(member(object, "metadata", "labels"));
  const auto found = labels.find(name);
  return found == labels.end() ? std::string() : found->second;
}

std::string name_of(const Json& object) { return text_of(member(object, "metadata", "name")); }

const Json& items(const ApiAnswer& answer) { return items_of(member(answer.body, "items")); }

Check check_installed(const ClusterFacts& facts) {
  constexpr const char* kName = "installed";
  if (!facts.daemonsets.good()) return unanswered(kName, facts.daemonsets);
  std::set<std::string> namespaces;
  for (const ApiAnswer* list : {&facts.daemonsets, &facts.deployments})
    for (const Json& item : items(*list))
      namespaces.insert(text_of(member(item, "metadata", "namespace")));
  if (namespaces.empty() && items(facts.webhooks).empty() && items(facts.policies).empty())
    return bad(kName, "Fairlead is not in this cluster",
               "README.md has the commands; `fairleadctl check --pre` looks at the cluster alone");
  if (namespaces.size() > 1) {
    std::string names;
    for (const std::string& one : namespaces) names += (names.empty() ? "" : ", ") + one;
    return bad(kName, "Fairlead is installed more than once, in: " + names,
               "helm list -A names the releases; uninstall all but one");
  }
  return good(kName, "in namespace " + facts.release_namespace);
}

std::vector<Check> check_daemonsets(const ClusterFacts& facts) {
  constexpr const char* kName = "daemonset";
  std::vector<Check> checks;
  for (const Json& set : items(facts.daemonsets)) {
    const std::uint64_t wanted = number_of(set, "status", "desiredNumberScheduled");
    const std::uint64_t ready = number_of(set, "status", "numberReady");
    const std::string counts = name_of(set) + ": " + std::to_string(ready) + " of " +
                               std::to_string(wanted) + " nodes ready";
    if (wanted == 0)
      checks.push_back(doubtful(kName, name_of(set) + " selects no node",
                                "compare nodePools[].nodeSelector with `kubectl get nodes "
                                "--show-labels`"));
    else if (ready == 0 && facts.openshift)
      checks.push_back(
          bad(kName, counts + "; on OpenShift its account needs the SCC privileged",
              "oc adm policy add-scc-to-user privileged -n " + facts.release_namespace + " -z " +
                  text_of(member(member(set, "spec", "template"), "spec", "serviceAccountName"))));
    else if (ready < wanted)
      checks.push_back(bad(kName, counts,
                           "kubectl -n " + facts.release_namespace +
                               " get pods -l app.kubernetes.io/component=node -o wide"));
    else
      checks.push_back(good(kName, counts));
  }
  if (checks.empty() && facts.daemonsets.good())
    checks.push_back(bad(kName, "there is none: nothing redirects connections to sidecars",
                         "set node.enabled=true, or install the plugin by hand: docs/cni.md"));
  return checks;
}

std::vector<Check> check_deployments(const ClusterFacts& facts) {
  std::vector<Check> checks;
  if (!facts.deployments.good()) return {unanswered("injector", facts.deployments)};
  for (const Json& deployment : items(facts.deployments)) {
    if (label_of(deployment, kComponentLabel) != "injector") continue;
    const std::uint64_t wanted = number_of(deployment, "spec", "replicas");
    const std::uint64_t ready = number_of(deployment, "status", "readyReplicas");
    const std::string counts = name_of(deployment) + ": " + std::to_string(ready) + " of " +
                               std::to_string(wanted) + " replicas ready";
    if (ready == 0)
      checks.push_back(
          bad("injector", counts,
              "kubectl -n " + facts.release_namespace + " describe deploy/" + name_of(deployment)));
    else if (ready < wanted)
      checks.push_back(doubtful("injector", counts, "kubectl get pods tells which one is not"));
    else
      checks.push_back(good("injector", counts));
  }
  return checks;
}

Check check_versions(const ClusterFacts& facts, std::string_view own) {
  std::set<std::string> versions;
  std::string shown;
  const auto add = [&](const std::string& who, const std::string& version) {
    if (version.empty()) return;
    if (versions.insert(version).second) shown += (shown.empty() ? "" : ", ") + who + " " + version;
  };
  for (const Json& set : items(facts.daemonsets)) add(name_of(set), label_of(set, kVersionLabel));
  for (const Json& one : items(facts.deployments)) add(name_of(one), label_of(one, kVersionLabel));
  for (const Json& map : items(facts.node_statuses)) {
    const Json status = node_status_of(map);
    add("node " + text_of(member(status, "node")), text_of(member(status, "version")));
  }
  const std::size_t in_cluster = versions.size();
  add("fairleadctl", std::string(own));
  if (in_cluster > 1)
    return doubtful("versions", shown,
                    "finish the upgrade: kubectl rollout status of the DaemonSets; parts of one "
                    "minor version work together");
  if (versions.size() > 1)
    return doubtful("versions", shown, "use the fairleadctl of the cluster's version");
  return good("versions", shown);
}

}  // namespace

std::vector<Check> cluster_checks(const ClusterFacts& facts, const CheckScope& scope) {
  std::vector<Check> checks;
  if (facts.version.status == 0 || facts.version.status == http_status::kUnauthorized)
    return {bad("api_server", facts.version.trouble, "kubectl get --raw /version shows the same")};
  checks.push_back(good("api_server", facts.server + ", context " + facts.context));
  for (Check& check : platform_checks(facts, scope)) checks.push_back(std::move(check));
  for (Check& check : neighbour_checks(facts)) checks.push_back(std::move(check));
  if (scope.before) return checks;
  checks.push_back(check_installed(facts));
  if (checks.back().status == Check::Status::kFail && items(facts.daemonsets).empty() &&
      items(facts.deployments).empty() && items(facts.webhooks).empty())
    return checks;
  for (Check& check : check_daemonsets(facts)) checks.push_back(std::move(check));
  for (Check& check : check_deployments(facts)) checks.push_back(std::move(check));
  for (Check& check : injection_checks(facts, scope)) checks.push_back(std::move(check));
  for (Check& check : policy_checks(facts)) checks.push_back(std::move(check));
  for (Check& check : agent_checks(facts)) checks.push_back(std::move(check));
  checks.push_back(check_versions(facts, scope.own_version));
  return checks;
}

}  // namespace fairlead::ctl
