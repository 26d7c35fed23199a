#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "ctl/cluster/check_text.h"
#include "ctl/cluster/cluster_checks.h"
#include "event/https/sha256.h"

namespace fairlead::ctl {
namespace {

using json::items_of;
using json::Json;
using json::member;
using json::text_of;

constexpr const char* kName = "policies";
constexpr const char* kRestore = "helm upgrade restores it; docs/threat-model.md lists the rights";

const Json& items(const ApiAnswer& answer) { return items_of(member(answer.body, "items")); }

// The digests that the chart wrote on its Deployment and DaemonSets, by name of the policy.
std::map<std::string, std::string> expected_policies(const ClusterFacts& facts) {
  std::map<std::string, std::string> digests;
  for (const ApiAnswer* list : {&facts.daemonsets, &facts.deployments})
    for (const Json& item : items(*list)) {
      const auto annotations = json::strings_of(member(item, "metadata", "annotations"));
      const auto found = annotations.find(kPoliciesAnnotation);
      if (found == annotations.end()) continue;
      std::string_view rest(found->second);
      while (!rest.empty()) {
        const std::string_view entry = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
        const std::size_t equals = entry.find('=');
        if (equals == std::string_view::npos || equals == 0) continue;
        digests[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
      }
    }
  return digests;
}

// As Go and so Helm writes JSON: these characters are escaped.
std::string json_of_go(const Json& value) {
  std::string text;
  for (const char c : value.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<')
      text += "\\u003c";
    else if (c == '>')
      text += "\\u003e";
    else if (c == '&')
      text += "\\u0026";
    else
      text += c;
  }
  return text;
}

bool denies(const Json& binding) {
  const Json& actions = items_of(member(binding, "spec", "validationActions"));
  // A binding with matchResources or paramRef may leave requests out.
  return std::find(actions.begin(), actions.end(), Json("Deny")) != actions.end() &&
         member(binding, "spec", "matchResources").is_null() &&
         member(binding, "spec", "paramRef").is_null();
}

std::vector<Check> judge_policy(const std::string& name, const std::string& digest,
                                const ClusterFacts& facts) {
  const Json& policies = items(facts.narrowing);
  const auto policy = std::find_if(policies.begin(), policies.end(), [&](const Json& one) {
    return text_of(member(one, "metadata", "name")) == name;
  });
  if (policy == policies.end())
    return {bad(kName, "the ValidatingAdmissionPolicy " + name + " is missing", kRestore)};
  if (event::sha256_of(json_of_go(member(*policy, "spec"))) != digest)
    return {bad(kName, "the ValidatingAdmissionPolicy " + name + " is not as the chart wrote it",
                kRestore)};
  const Json& bindings = items(facts.bindings);
  if (std::none_of(bindings.begin(), bindings.end(), [&](const Json& one) {
        return text_of(member(one, "spec", "policyName")) == name && denies(one);
      }))
    return {bad(kName,
                "no ValidatingAdmissionPolicyBinding denies what the policy " + name + " refuses",
                kRestore)};
  return {};
}

}  // namespace

std::vector<Check> policy_checks(const ClusterFacts& facts) {
  if (!facts.daemonsets.good() || !facts.deployments.good()) return {};
  if (!facts.narrowing.good()) return {unanswered(kName, facts.narrowing)};
  if (!facts.bindings.good()) return {unanswered(kName, facts.bindings)};
  const std::map<std::string, std::string> digests = expected_policies(facts);
  std::vector<Check> checks;
  for (const auto& [name, digest] : digests)
    for (Check& check : judge_policy(name, digest, facts)) checks.push_back(std::move(check));
  // Without accountPolicies the chart has at most the policies about RNICs.
  const bool accounts_are_free = std::all_of(digests.begin(), digests.end(), [](const auto& one) {
    return one.first.find("-rnic") != std::string::npos;
  });
  if (accounts_are_free)
    checks.push_back(
        doubtful(kName, "none: a stolen token of injector or agent has all rights of its role",
                 "set accountPolicies=true, or see docs/threat-model.md"));
  if (checks.empty())
    checks.push_back(good(kName, std::to_string(digests.size()) + " narrow rights"));
  return checks;
}

}  // namespace fairlead::ctl
