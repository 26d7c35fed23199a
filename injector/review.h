// AdmissionReview, admission.k8s.io/v1: the request of an API server as values, and our answer.
// Pure. Source: Kubernetes, "Dynamic Admission Control", section "Webhook request and response".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "injector/bounded_json.h"
#include "injector/decision.h"

namespace fairlead::injector {

// API servers refuse objects above 3 MiB themselves; an update carries two.
inline constexpr std::size_t kReviewBytesMax = 3 << 20;
// The API server cuts a warning at 256 characters, and all of them together at 4096.
inline constexpr std::size_t kWarningCharsMax = 256;
inline constexpr std::size_t kWarningsMax = 16;

struct Review {
  std::string uid;
  std::string name_space;
  bool dry_run = false;
  Json pod;
};

// Who made the pod, or the pod itself where nobody did: what an Event can be attached to, since the
// pod does not exist yet.
struct Subject {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;  // empty for a pod that is about to be made
};

// Error: a sentence that names the field, its value and what is allowed.
tl::expected<Review, std::string> decode_review(std::string_view body);

// Always allows: a pod without sidecar is a pod with TCP. Patch and warnings as decided.
std::string encode_answer(const Review& review, const Decision& decision);

Subject subject_of(const Review& review);

}  // namespace fairlead::injector
