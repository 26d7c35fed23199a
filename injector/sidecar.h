// The container that carries the proxy. Pure.
#pragma once

#include <optional>
#include <string>

#include "injector/annotations.h"
#include "injector/bounded_json.h"
#include "injector/rnic_request.h"
#include "injector/settings.h"

namespace fairlead::injector {

// A container as in Pod.spec.initContainers, with restartPolicy Always.
Json sidecar_container(const Settings& settings, const Wishes& wishes, const RnicRequest& rnic);

std::uint16_t admin_port_of(const Settings& settings, const Wishes& wishes);

// A connection that is never tried as SMC-R and has to be it: both rules. Else nothing.
std::optional<std::string> rule_conflict(const Wishes& wishes);

// A request above its limit, which the API server would refuse with the whole pod. Else nothing.
std::optional<std::string> resource_conflict(const Settings& settings, const Wishes& wishes);

}  // namespace fairlead::injector
