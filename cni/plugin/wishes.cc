#include "cni/plugin/wishes.h"

#include <utility>

#include "base/kubernetes_names.h"

namespace fairlead::cni {
namespace {

using kubernetes::NodeAnnotation;

tl::unexpected<PluginError> refuse(const std::string& key, std::string_view value,
                                   std::string_view allowed) {
  return fail(Code::kConfig,
              key + ": " + in_quotes(value) + " is not allowed; allowed: " + std::string(allowed));
}

bool take_ports(std::string_view value, std::vector<kubernetes::PortRange>& into) {
  auto ranges = kubernetes::parse_port_list(value);
  if (!ranges) return false;
  into = std::move(*ranges);
  return true;
}

bool take(NodeAnnotation annotation, std::string_view value, Wishes& wishes) {
  switch (annotation) {
    case NodeAnnotation::kPnetId:
      wishes.pnet_id = canonical_pnet(value);
      return !wishes.pnet_id.empty();
    case NodeAnnotation::kSkipInboundPorts:
      return take_ports(value, wishes.skip_inbound);
    case NodeAnnotation::kSkipOutboundPorts:
      return take_ports(value, wishes.skip_outbound);
    case NodeAnnotation::kIncludeInboundPorts:
      return take_ports(value, wishes.include_inbound);
    case NodeAnnotation::kSkipSubnets:
      if (auto blocks = kubernetes::parse_cidr_list(value)) {
        wishes.skip_subnets = std::move(*blocks);
        return true;
      }
      return false;
    case NodeAnnotation::kIncludeCidrs:
      wishes.include_cidrs = kubernetes::parse_cidr_list(value);
      return wishes.include_cidrs.has_value();
    case NodeAnnotation::kClientAddress:
      wishes.client_address = kubernetes::parse_switch(value);
      return wishes.client_address.has_value();
    case NodeAnnotation::kRnicAccess:
      return value == kubernetes::kRnicAccessAllowed;  // for the agent, at a container's creation
  }
  return false;
}

}  // namespace

bool opted_in(const StringMap& annotations) {
  const auto inject = annotations.find(kubernetes::kInjectKey);
  return annotations.contains(kubernetes::kStatusKey) &&
         (inject == annotations.end() || inject->second != "disabled");
}

Outcome<Wishes> read_wishes(const StringMap& annotations) {
  Wishes wishes;
  for (const kubernetes::NodeAnnotationInfo& info : kubernetes::kNodeAnnotations) {
    const std::string key = std::string(kubernetes::kAnnotationPrefix) + std::string(info.name);
    const auto found = annotations.find(key);
    if (found != annotations.end() && !take(info.annotation, found->second, wishes))
      return refuse(key, found->second, info.allowed);
  }
  return wishes;
}

}  // namespace fairlead::cni
