// How a sidecar asks the cluster for an RDMA device: by an extended resource of a device plugin, by
// a claim of a DRA driver (resource.k8s.io/v1), or not at all. Pure.
#pragma once

#include <optional>
#include <string>

#include "injector/annotations.h"
#include "injector/bounded_json.h"
#include "injector/settings.h"

namespace fairlead::injector {

struct RnicRequest {
  std::string resource;        // name of an extended resource
  std::string claim_template;  // name of the ResourceClaimTemplate for the pod's new claim
  bool own_claim = false;      // the pod has an entry kRnicClaimName in its resourceClaims already
};

// At most one of its members is set. The pod's own entry comes before its annotations, and these
// before the settings.
RnicRequest rnic_request(const Json& pod_spec, const Settings& settings, const Wishes& wishes);

// Two requests of one pod that exclude each other, as a sentence. Else nothing.
std::optional<std::string> rnic_conflict(const Json& pod_spec, const Wishes& wishes);

}  // namespace fairlead::injector
