#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "ctl/cluster/check_text.h"
#include "ctl/cluster/cluster_checks.h"

namespace fairlead::ctl {
namespace {

using json::items_of;
using json::Json;
using json::member;
using json::text_of;

constexpr const char* kName = "policies";
constexpr const char* kRestore = "helm upgrade restores it; docs/threat-model.md lists the rights";

const Json& items(const ApiAnswer& answer) { return items_of(member(answer.body, "items")); }

// The names that the chart wrote on its Deployment and DaemonSets.
std::set<std::string> expected_policies(const ClusterFacts& facts) {
  std::set<std::string> names;
  for (const ApiAnswer* list : {&facts.daemonsets, &facts.deployments})
    for (const Json& item : items(*list)) {
      const auto annotations = json::strings_of(member(item, "metadata", "annotations"));
      const auto found = annotations.find(kPoliciesAnnotation);
      if (found == annotations.end()) continue;
      std::string_view rest(found->second);
      while (!rest.empty()) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        if (comma != 0) names.emplace(rest.substr(0, comma));
        rest.remove_prefix(std::min(comma + 1, rest.size()));
      }
    }
  return names;
}

bool denies(const Json& binding) {
  const Json& actions = items_of(member(binding, "spec", "validationActions"));
  // A binding with matchResources may leave requests out.
  return std::find(actions.begin(), actions.end(), Json("Deny")) != actions.end() &&
         member(binding, "spec", "matchResources").is_null();
}

std::vector<Check> judge_policy(const std::string& name, const ClusterFacts& facts) {
  const Json& policies = items(facts.narrowing);
  const auto policy = std::find_if(policies.begin(), policies.end(), [&](const Json& one) {
    return text_of(member(one, "metadata", "name")) == name;
  });
  if (policy == policies.end())
    return {bad(kName, "the ValidatingAdmissionPolicy " + name + " is missing", kRestore)};
  if (text_of(member(*policy, "spec", "failurePolicy")) != "Fail")
    return {bad(kName, "the failurePolicy of the ValidatingAdmissionPolicy " + name + " is not Fail",
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
  const std::set<std::string> names = expected_policies(facts);
  // Without accountPolicies the chart has at most the policy about RNICs.
  const bool accounts_are_free = std::all_of(
      names.begin(), names.end(), [](const std::string& name) { return name.ends_with("-rnic"); });
  if (accounts_are_free)
    return {doubtful(kName,
                     "none: a stolen token of injector or agent has all rights of its role",
                     "set accountPolicies=true, or see docs/threat-model.md")};
  std::vector<Check> checks;
  for (const std::string& name : names)
    for (Check& check : judge_policy(name, facts)) checks.push_back(std::move(check));
  if (checks.empty())
    checks.push_back(good(kName, std::to_string(names.size()) + " narrow the rights of accounts"));
  return checks;
}

}  // namespace fairlead::ctl
