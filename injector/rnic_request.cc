#include "injector/rnic_request.h"

#include <algorithm>
#include <string_view>

#include "base/kubernetes_names.h"

namespace fairlead::injector {
namespace {

using kubernetes::kRnicClaimName;

constexpr std::string_view kResource = "rnic-resource";
constexpr std::string_view kClaimTemplate = "rnic-claim-template";
constexpr std::string_view kNone = "none";

// Settings and annotations may say "none", too.
std::string or_nothing(const std::string& value) { return value == kNone ? std::string() : value; }

std::string value_of(const Wishes& wishes, std::string_view name) {
  const auto found = wishes.find(name);
  return found == wishes.end() ? std::string() : found->second;
}

std::string request_of(const Wishes& wishes, std::string_view name) {
  return or_nothing(value_of(wishes, name));
}

bool has_own_claim(const Json& pod_spec) {
  const Json& claims = items_of(member(pod_spec, "resourceClaims"));
  return std::any_of(claims.begin(), claims.end(), [](const Json& claim) {
    return text_of(member(claim, "name")) == kRnicClaimName;
  });
}

std::string key_and_value(std::string_view name, const std::string& value) {
  return std::string(kubernetes::kAnnotationPrefix) + std::string(name) + ": \"" + value + "\"";
}

}  // namespace

RnicRequest rnic_request(const Json& pod_spec, const Settings& settings, const Wishes& wishes) {
  RnicRequest request;
  if (value_of(wishes, kClaimTemplate) != kNone && has_own_claim(pod_spec)) {
    request.own_claim = true;
    return request;
  }
  request.claim_template = request_of(wishes, kClaimTemplate);
  request.resource = request_of(wishes, kResource);
  if (!request.claim_template.empty() || !request.resource.empty()) return request;
  if (value_of(wishes, kClaimTemplate) != kNone)
    request.claim_template = or_nothing(settings.rnic_claim_template);
  if (value_of(wishes, kResource) != kNone) request.resource = or_nothing(settings.rnic_resource);
  return request;
}

std::optional<std::string> rnic_conflict(const Json& pod_spec, const Wishes& wishes) {
  const std::string claim_template = request_of(wishes, kClaimTemplate);
  const std::string resource = request_of(wishes, kResource);
  if (!claim_template.empty() && !resource.empty())
    return key_and_value(kClaimTemplate, claim_template) + " is not allowed with " +
           key_and_value(kResource, resource) + "; allowed: one of them";
  if (!has_own_claim(pod_spec) || value_of(wishes, kClaimTemplate) == kNone) return std::nullopt;
  const std::string_view name = claim_template.empty() ? kResource : kClaimTemplate;
  const std::string& value = claim_template.empty() ? resource : claim_template;
  if (value.empty()) return std::nullopt;
  return key_and_value(name, value) + " is not allowed with the pod's own claim " +
         std::string(kRnicClaimName) + " in spec.resourceClaims; allowed: one of them";
}

}  // namespace fairlead::injector
