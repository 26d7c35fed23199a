// Decision about a pod: a JSON patch (RFC 6902) that adds the sidecar, or the reason why there is
// none. A pure function of the pod, the settings and the label of the namespace. The webhook,
// `fairleadctl inject` and the chart's admission policy all have the same result.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "injector/bounded_json.h"
#include "injector/settings.h"

namespace fairlead::injector {

enum class Outcome : std::uint8_t {
  kInjected,
  kNotRequested,     // neither the pod nor its namespace requests it
  kDisabled,         // by annotation
  kMovedFirst,       // injected before, and others have come in front of the sidecar since
  kAlreadyInjected,  // the sidecar or its status annotation is there
  kHostNetwork,      // Fairlead does not redirect the node's network
  kOtherMesh,        // another mesh redirects the same connections
  kWindows,
  kPortConflict,   // a container of the pod uses a port of the sidecar
  kBadAnnotation,  // a wrong value: TCP is better than a guess
  kMalformedPod,   // not the shape of a pod
};

// For metrics and log: snake_case, a closed set.
std::string_view to_string(Outcome outcome);
std::span<const Outcome> outcomes();

// True if a user who requested the sidecar needs a warning that there is none.
bool is_worth_a_warning(Outcome outcome);

struct Decision {
  Outcome outcome = Outcome::kNotRequested;
  std::string explanation;            // empty for kInjected and kMovedFirst; else a sentence
  std::vector<std::string> warnings;  // for the user: errors and unknown keys
  Json patch = Json::array();         // empty unless kInjected or kMovedFirst
};

// `namespace_opted_in`: the namespace has the label, so a pod without annotation is injected.
Decision decide(const Json& pod, const Settings& settings, bool namespace_opted_in);

}  // namespace fairlead::injector
