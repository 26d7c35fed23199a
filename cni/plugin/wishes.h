// Settings for the plugin in a pod's annotations. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/node_annotations.h"
#include "cni/plugin/request.h"

namespace fairlead::cni {

struct Wishes {
  std::vector<kubernetes::PortRange> skip_inbound;
  std::vector<kubernetes::PortRange> include_inbound;
  std::vector<kubernetes::PortRange> skip_outbound;
  std::vector<Cidr> skip_subnets;
  std::optional<std::vector<Cidr>> include_cidrs;  // in place of the node's
  std::optional<bool> client_address;              // in place of the node's
  std::string pnet_id;                             // upper case, or empty
};

// True if the pod has a sidecar and is not excluded from the redirect: the injection wrote its
// status, and fairlead.io/inject is not "disabled".
bool opted_in(const StringMap& annotations);

// The error names the annotation. Annotations of other programs are ignored.
Outcome<Wishes> read_wishes(const StringMap& annotations);

}  // namespace fairlead::cni
