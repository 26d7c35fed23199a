#include <algorithm>
#include <ctime>
#include <set>
#include <string>

#include "base/utc_time.h"
#include "ctl/cluster/check_text.h"
#include "ctl/cluster/cluster_checks.h"
#include "event/https/base64.h"
#include "injector/certificate.h"

namespace fairlead::ctl {
namespace {

using json::items_of;
using json::Json;
using json::member;
using json::text_of;
using WallTime = std::chrono::system_clock::time_point;

constexpr std::chrono::hours kExpiryWarn{14 * 24};

const Json& webhooks_of(const Json& configuration) { return member(configuration, "webhooks"); }

std::string date_of(WallTime time) { return utc_text(std::chrono::system_clock::to_time_t(time)); }

// The authority that the API server is to believe the injector with.
Check check_authority(const Json& configuration, WallTime now) {
  constexpr const char* kName = "webhook_ca";
  constexpr const char* kFix =
      "see the injector's log for certificate_failed: docs/alerts.md, "
      "FairleadInjectorCertErrors";
  for (const Json& webhook : items_of(webhooks_of(configuration))) {
    const std::string name = text_of(member(webhook, "name"));
    const std::string encoded = text_of(member(member(webhook, "clientConfig"), "caBundle"));
    if (encoded.empty()) return bad(kName, name + " has no caBundle", kFix);
    const auto pem = event::base64_decoded(encoded);
    const auto validity =
        pem ? injector::validity_of(*pem) : Result<injector::Validity>(Error{Errc::kMalformed});
    if (!validity) return bad(kName, "the caBundle of " + name + " is no certificate", kFix);
    if (validity->until < now)
      return bad(kName, "the caBundle of " + name + " expired on " + date_of(validity->until),
                 kFix);
    if (validity->until < now + kExpiryWarn)
      return doubtful(kName, "the caBundle of " + name + " expires on " + date_of(validity->until),
                      kFix);
  }
  return good(kName, "valid");
}

Check check_endpoints(const ClusterFacts& facts) {
  constexpr const char* kName = "webhook_service";
  if (!facts.endpoints.good()) return unanswered(kName, facts.endpoints);
  std::size_t ready = 0;
  for (const Json& slice : items_of(member(facts.endpoints.body, "items")))
    for (const Json& endpoint : items_of(member(slice, "endpoints")))
      ready += member(member(endpoint, "conditions"), "ready") != false;
  if (ready == 0)
    return bad(kName, "the injector's Service has no endpoint that is ready",
               "kubectl -n " + facts.release_namespace +
                   " get pods -l app.kubernetes.io/component=injector");
  return good(kName, std::to_string(ready) + " endpoints ready");
}

bool has_sidecar(const Json& pod) {
  for (const char* list : {"initContainers", "containers"})
    for (const Json& container : items_of(member(pod, "spec", list)))
      if (text_of(member(container, "name")) == "fairlead-proxy") return true;
  return false;
}

// The mesh whose webhook added its sidecar; null without one.
const char* mesh_in(const Json& pod) {
  const Json& annotations = member(pod, "metadata", "annotations");
  if (!member(annotations, "sidecar.istio.io/status").is_null()) return "Istio";
  return member(annotations, "linkerd.io/proxy-version").is_null() ? nullptr : "Linkerd";
}

// The init container in front of the sidecar; empty if that is first.
std::string in_front_of_sidecar(const Json& pod) {
  const Json& inits = items_of(member(pod, "spec", "initContainers"));
  const bool is_there = std::any_of(inits.begin(), inits.end(), [](const Json& container) {
    return text_of(member(container, "name")) == "fairlead-proxy";
  });
  const std::string first = is_there ? text_of(member(inits.front(), "name")) : std::string();
  return first == "fairlead-proxy" ? std::string() : first;
}

// A pod that the API server accepted.
Check judge_pod(const Json& pod) {
  constexpr const char* kName = "injection";
  const char* mesh = mesh_in(pod);
  if (has_sidecar(pod) && mesh != nullptr)
    return bad(kName,
               std::string("a pod for a try got two sidecars, of Fairlead and of ") + mesh +
                   ": each redirects the connections of the other",
               "inject one of them into the pods of this namespace: docs/beside.md");
  if (const std::string first = in_front_of_sidecar(pod); !first.empty())
    return bad(kName,
               "a pod for a try got the init container " + first +
                   " in front of the sidecar: it has no network until the sidecar runs",
               "let the webhook that adds it put it behind fairlead-proxy: docs/injection.md");
  if (has_sidecar(pod)) return good(kName, "a pod for a try got the sidecar");
  if (mesh != nullptr)
    return doubtful(kName,
                    std::string("a pod for a try got the sidecar of ") + mesh +
                        ", and therefore none of Fairlead",
                    "inject one of them into the pods of this namespace: docs/beside.md");
  return bad(kName, "a pod for a try got no sidecar: the API server does not reach the webhook",
             "check network policies and firewalls between API server and injector (port 9443)");
}

Check check_dry_run(const ClusterFacts& facts) {
  constexpr const char* kName = "injection";
  if (facts.dry_run.good()) return judge_pod(facts.dry_run.body);
  const std::string message = text_of(member(facts.dry_run.body, "message"));
  if (message.find("failed calling webhook") != std::string::npos)
    return bad(kName, "pods that ask for the sidecar are refused: " + message,
               "mend the injector; until then injector.failurePolicy=Ignore lets pods start");
  // RBAC's words; all other refusals are about the pod.
  const bool may_not_ask = message.find("cannot create resource") != std::string::npos;
  if (may_not_ask || !facts.dry_run.refused()) return unanswered(kName, facts.dry_run);
  if (!facts.dry_run_plain.good())
    return doubtful(kName,
                    "not checked: a pod for a try is refused without the sidecar, too: " +
                        text_of(member(facts.dry_run_plain.body, "message")),
                    "the rules of this namespace do not fit the pod for a try (1m CPU, 1Mi); name "
                    "another namespace with -n");
  if (message.find("comes before the sidecar fairlead-proxy") != std::string::npos)
    return bad(kName, "a pod with the sidecar is refused: " + message,
               "see which webhook adds that init container, and whether it may run behind the "
               "sidecar: docs/injection.md");
  if (message.find("security context constraint") != std::string::npos)
    return bad(kName, "no SCC of the pod's account permits uid 2201 of the sidecar: " + message,
               "oc adm policy add-scc-to-user nonroot-v2 -n " + facts.pod_namespace +
                   " -z default, or the pods' other service account: docs/platforms.md");
  return bad(kName, "a pod with the sidecar is refused: " + message,
             "docs/faq.md lists remedies; most often a larger quota, or other proxy.cpuRequest, "
             "proxy.memoryRequest, proxy.cpuLimit and proxy.memoryLimit");
}

bool has_injector(const ClusterFacts& facts) {
  return !items_of(member(facts.deployments.body, "items")).empty();
}

std::vector<Check> check_webhook(const ClusterFacts& facts, const Json& configuration,
                                 const CheckScope& scope) {
  std::vector<Check> checks;
  if (!has_injector(facts) && facts.deployments.good())
    checks.push_back(bad("webhook", "it is there, and the injector's Deployment is not",
                         "helm upgrade puts the Deployment back; or delete the webhook "
                         "configuration " +
                             text_of(member(configuration, "metadata", "name"))));
  else
    checks.push_back(good("webhook", text_of(member(configuration, "metadata", "name"))));
  checks.push_back(check_authority(configuration, scope.now));
  checks.push_back(check_endpoints(facts));
  checks.push_back(check_dry_run(facts));
  return checks;
}

}  // namespace

std::vector<Check> injection_checks(const ClusterFacts& facts, const CheckScope& scope) {
  using json::Json;  // not the one of reports.h
  if (!facts.webhooks.good()) return {unanswered("webhook", facts.webhooks)};
  const Json& webhooks = items_of(member(facts.webhooks.body, "items"));
  const Json& policies = items_of(member(facts.policies.body, "items"));
  if (webhooks.size() > 1)
    return {bad("webhook", "two installations of Fairlead inject into this cluster",
                "helm list -A names them; uninstall one")};
  if (webhooks.empty() && facts.policies.denied()) return {unanswered("webhook", facts.policies)};
  if (webhooks.size() == 1) return check_webhook(facts, webhooks[0], scope);
  if (!policies.empty()) return {good("webhook", "none; the API server injects by a policy")};
  if (has_injector(facts))
    return {bad("webhook", "the injector runs, and no webhook configuration names it",
                "helm upgrade puts the configuration back")};
  return {doubtful("webhook", "nothing injects into pods (injector.mode manual)",
                   "fairleadctl inject adds the sidecar to manifests")};
}

}  // namespace fairlead::ctl
