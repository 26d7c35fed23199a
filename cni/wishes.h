// What a pod's annotations ask of the plugin. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "cni/ranges.h"
#include "cni/request.h"

namespace fairlead::cni {

struct Wishes {
  Intervals skip_inbound;
  Intervals include_inbound;
  Intervals skip_outbound;
  std::vector<Cidr> skip_subnets;
  std::optional<std::vector<Cidr>> include_cidrs;  // in place of the node's
  std::optional<bool> client_address;              // in place of the node's
  std::string pnet_id;                             // upper case, or empty
};

// Whether the pod has a sidecar and has not been taken out of the redirect: the injection wrote its
// status, and fairlead.io/inject does not say disabled.
bool opted_in(const StringMap& annotations);

// The error names the annotation. Annotations of others are not looked at.
Outcome<Wishes> read_wishes(const StringMap& annotations);

}  // namespace fairlead::cni
